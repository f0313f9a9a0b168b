// Package users gives each container a user of its own. The kernel counts for each
// user, over all containers: descriptors on their way through sockets, pages of pipes,
// inotify instances, message queues, pending signals, keys. Sandboxes of one user can
// use up what the others need. So each container has a UID, and the GID of that number,
// that nothing else has ([Table]).
//
// Files do not change hands for it: on the disk what commands write is their owner's,
// and the container's mounts show that owner as the container's user (idmapped mounts,
// [Mapping]). The image's /etc/passwd has a line for it ([Prepare]).
package users

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/filelock"
	"github.com/corral-exec/corral/internal/state/journal"
)

// DefaultRange is of IDs that neither distributions nor systemd give to
// users.
const DefaultRange = "1879048192-1879113727"

// Shared is the range with which no container has a user of its own.
const Shared = "shared"

// Range are the IDs from first to last; none if both are 0.
type Range struct{ first, last int }

// None reports whether there are none.
func (r Range) None() bool { return r.last == 0 }

// Bounds of a range: below are users of the machine; -1 as 32 bits is no user.
const (
	minUID  = 1000
	maxUID  = 1<<31 - 2
	minUIDs = 16
)

// Remapped are the IDs in a container of an engine that remaps users. Such an
// engine has 65536 IDs that no other user outside has.
var Remapped = Range{10_000, 59_999}

// ParseRange reads FIRST-LAST, or shared.
func ParseRange(text string) (Range, error) {
	if text == Shared {
		return Range{}, nil
	}
	a, b, ok := strings.Cut(text, "-")
	first, ferr := strconv.Atoi(a)
	last, lerr := strconv.Atoi(b)
	if !ok || ferr != nil || lerr != nil || first < minUID || last > maxUID || last-first+1 < minUIDs || first <= 65535 && last >= 65534 {
		return Range{}, corral.Errorf(corral.ErrInvalid, "use FIRST-LAST, such as "+DefaultRange+", or "+Shared,
			"%q is no range of user IDs for sandboxes: it has at least %d, from %d to %d, and neither 65534 nor 65535", text, minUIDs, minUID, maxUID)
	}
	return Range{first, last}, nil
}

// A Table has the users that containers have on this machine, whatever state
// directories there are.
type Table struct {
	// Dir has a file for each of them. It is gone when the machine starts, as
	// are the containers.
	Dir string
	// Box is the directory of a lease's box, which exists as long as the box.
	Box func(Lease) string
}

// Lease is the content of such a file, with a checksum: the box that has the user. A
// lease is void when its box is gone. That cannot be told of a damaged one, so its
// user is not lent again until the file is removed.
type Lease struct {
	State string `json:"state"`
	Box   string `json:"box"`
}

// Lend notes a user of the range that no box has, which is uid+offset on this
// machine. The caller notes the box and calls noted; until then no lease is swept.
func (t Table) Lend(ctx context.Context, from Range, offset int, l Lease) (uid int, noted func(), err error) {
	unlock, err := t.lock(ctx)
	if err != nil {
		return 0, nil, err
	}
	if uid, err = t.take(from, offset, l); err != nil {
		unlock()
		return 0, nil, err
	}
	return uid, unlock, nil
}

func (t Table) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot note the users of sandboxes: %w", err)
	}
	f, err := filelock.Open(ctx, filepath.Join(t.Dir, ".lock"))
	if err != nil {
		return nil, fmt.Errorf("cannot note the users of sandboxes: %w", err)
	}
	return func() { f.Close() }, nil
}

func (t Table) path(uid int) string { return filepath.Join(t.Dir, strconv.Itoa(uid)) }

// take notes a user of the range. The lock is held.
func (t Table) take(from Range, offset int, l Lease) (int, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return 0, err
	}
	text = journal.Sign(text)
	take := func(uid int) (bool, error) {
		err := atomicfile.Create(t.path(uid+offset), text, atomicfile.Options{})
		if errors.Is(err, fs.ErrExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("cannot note the user of a sandbox: %w", err)
		}
		return true, nil
	}
	// Any of them, so that a number is not used again soon.
	n := from.last - from.first + 1
	for range 32 {
		uid := from.first + rand.IntN(n)
		if ok, err := take(uid); ok || err != nil {
			return uid, err
		}
	}
	damaged, err := t.reap()
	if err != nil {
		return 0, err
	}
	begin := rand.IntN(n)
	for i := range n {
		uid := from.first + (begin+i)%n
		if ok, err := take(uid); ok || err != nil {
			return uid, err
		}
	}
	return 0, errors.Join(corral.Errorf(corral.ErrUnavailable, "remove sandboxes that are not needed (corral sandbox rm), or have a larger sandbox.uidRange",
		"all %d users that sandboxes may have (sandbox.uidRange) are in use", n), damaged)
}

// Return gives back the user of a box that is gone. uid is the one on this machine.
func (t Table) Return(uid int, box string) error {
	unlock, err := t.lock(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	if l, err := readLease(t.path(uid)); err != nil || l.Box != box {
		return nil //nolint:nilerr // another box has it by now, or none
	}
	if err := os.Remove(t.path(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot give back the user of a sandbox: %w", err)
	}
	return nil
}

// readLease reads a file of leases. Those of earlier versions have no checksum.
func readLease(file string) (l Lease, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Lease{}, err
	}
	if err = journal.Decode(b, &l); err == nil && (l.State == "" || l.Box == "") {
		err = errors.New("it names no container")
	}
	if err != nil {
		return Lease{}, corral.Errorf(errDamaged, "remove it if no container has that user (corral sandbox ls), or restart the machine",
			"%s is damaged, and no sandbox gets the user ID %s: %w", file, filepath.Base(file), err)
	}
	return l, nil
}

var errDamaged = corral.Errorf(corral.ErrUnavailable, "", "the note of a sandbox's user is damaged")

// Sweep gives back the users of boxes that are gone.
func (t Table) Sweep(ctx context.Context) error {
	if _, err := os.Stat(t.Dir); err != nil || os.Geteuid() != 0 {
		return nil //nolint:nilerr // no box has any
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	damaged, err := t.reap()
	return errors.Join(damaged, err)
}

// reap removes leases whose box is gone, unless a process has the user all
// the same: its state directory may have been removed by hand. It returns which
// are damaged. The lock is held.
func (t Table) reap() (damaged, err error) {
	list, err := os.ReadDir(t.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot look at the users of sandboxes: %w", err)
	}
	var void []int
	for _, e := range list {
		uid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		l, err := readLease(t.path(uid))
		if errors.Is(err, errDamaged) {
			damaged = errors.Join(damaged, err)
			continue
		}
		if err == nil {
			_, err = os.Stat(t.Box(l))
		}
		if errors.Is(err, fs.ErrNotExist) {
			void = append(void, uid)
		}
	}
	if len(void) == 0 {
		return damaged, nil
	}
	running, err := live()
	if err != nil {
		return damaged, err
	}
	var errs []error
	for _, uid := range void {
		if !running[uid] {
			errs = append(errs, os.Remove(t.path(uid)))
		}
	}
	return damaged, errors.Join(errs...)
}

// live are the users of this machine's processes.
func live() (map[int]bool, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*") // with a file in the pattern it would read each directory
	if err != nil {
		return nil, err
	}
	users := map[int]bool{}
	for _, dir := range dirs {
		b, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(b), "\nUid:")
		line, _, _ := strings.Cut(rest, "\n")
		for _, id := range strings.Fields(line) {
			if n, err := strconv.Atoi(id); err == nil {
				users[n] = true
			}
		}
	}
	return users, nil
}
