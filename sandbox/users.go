package sandbox

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
	"github.com/corral-exec/corral/internal/state/journal"
	"github.com/corral-exec/corral/sandbox/engine"
)

// The kernel counts for each user, over all containers: descriptors on their way
// through sockets, pages of pipes, inotify instances, message queues, pending
// signals, keys. Sandboxes of one user can use up what the others need. So each
// container has a UID, and the GID of that number, that nothing else has.
//
// Files do not change hands for it: on the disk what commands write is their
// owner's (Config.User), and the container's mounts show that owner as the
// container's user (idmapped mounts). Where that cannot be, commands run as the
// owner, and share the user.

// DefaultUIDRange is of IDs that neither distributions nor systemd give to
// anybody.
const DefaultUIDRange = "1879048192-1879113727"

// SharedUIDs is the Config.UIDRange with which no container has a user of its own.
const SharedUIDs = "shared"

// uidRange are the IDs from first to last; none if both are 0.
type uidRange struct{ first, last int }

func (r uidRange) none() bool { return r.last == 0 }

// Bounds of a range: below are users of the machine; -1 as 32 bits is no user.
const (
	minUID  = 1000
	maxUID  = 1<<31 - 2
	minUIDs = 16
)

// remappedUIDs are the IDs in a container of an engine that remaps users. Such an
// engine has 65536 IDs that no other user outside has.
var remappedUIDs = uidRange{10_000, 59_999}

// parseUIDRange reads FIRST-LAST, or shared.
func parseUIDRange(text string) (uidRange, error) {
	if text == SharedUIDs {
		return uidRange{}, nil
	}
	a, b, ok := strings.Cut(text, "-")
	first, ferr := strconv.Atoi(a)
	last, lerr := strconv.Atoi(b)
	if !ok || ferr != nil || lerr != nil || first < minUID || last > maxUID || last-first+1 < minUIDs || first <= 65535 && last >= 65534 {
		return uidRange{}, corral.Errorf(corral.ErrInvalid, "use FIRST-LAST, such as "+DefaultUIDRange+", or "+SharedUIDs,
			"%q is no range of user IDs for sandboxes: it has at least %d, from %d to %d, and neither 65534 nor 65535", text, minUIDs, minUID, maxUID)
	}
	return uidRange{first, last}, nil
}

// SharedUser says why commands would run as the owner of their files, with
// whatever else runs as that; empty if containers have a user of their own. The
// engine is not asked.
func (c Config) SharedUser(info engine.Info) (why string, err error) {
	c.Secrets = nil // whose place in memory would be made
	if c.Engine == nil {
		c.Engine = struct{ engine.Engine }{} // it is only asked later
	}
	if err := c.complete(); err != nil {
		return "", err
	}
	return c.sharesUser(info, c.plan().Mounts), nil
}

// sharesUser says why commands would run as the owner of their files (User), with
// whatever else runs as that; empty if they have a user of their own. It has to
// be called for a configuration that is complete.
func (c *Config) sharesUser(info engine.Info, mounts []engine.Mount) string {
	switch {
	case !c.anyUser:
		return "sandbox.user names it"
	case c.uids.none():
		return "sandbox.uidRange is " + SharedUIDs
	case c.isolatedKernel():
		return "the runtime " + c.Runtime + " has a kernel of its own, which counts for itself"
	case !info.Local:
		return "the engine at " + info.Address + " does not see this machine's files"
	case info.Rootless:
		return "the engine at " + info.Address + " is rootless: it has the rights of one user"
	case os.Geteuid() != 0:
		return "corral does not run as root"
	}
	for _, m := range mounts {
		if dir := c.mappedSource(m); dir != "" {
			if err := checkIdmap(dir, !m.ReadOnly); err != nil {
				return fmt.Sprintf("%s cannot be mounted with mapped IDs: %v", dir, err)
			}
		}
	}
	return ""
}

// mappedSource is the path on this machine that a mount shows with its owner mapped;
// empty for a mount in which rights do not count.
func (c *Config) mappedSource(m engine.Mount) string {
	switch {
	case m.Volume, m.Target == wardenPath, m.Target == socketDir:
		return ""
	case m.Source == "": // a private workspace that is not there yet
		return workspaceDir(c.StateDir, "new")
	}
	return m.Source
}

// usersDir has a file for each user that a container has: on this machine, which
// they are users of, whatever state directories there are. It is gone when the
// machine starts, as are the containers.
var usersDir = "/run/corral-users"

// lease is the content of such a file, with a checksum: the box that has the user. A
// lease is void when its box is gone. That cannot be told of a damaged one, so its
// user is not lent again until the file is removed.
type lease struct {
	State string `json:"state"`
	Box   string `json:"box"`
}

// lend gives the container of a box a user of its own, if it can have one. The
// caller notes the box and calls noted; until then the lock on leases is held.
func (s *setup) lend(ctx context.Context, info engine.Info, spec *engine.Spec, r *boxRecord) (noted func(), err error) {
	noted = func() {}
	if why := s.sharesUser(info, spec.Mounts); why != "" {
		s.Log.Debug("commands run as the owner of their files", "name", s.Name, "user", spec.User, "why", why)
		return noted, nil
	}
	from, offset := s.uids, 0
	if info.RemapUID != 0 {
		from, offset = remappedUIDs, info.RemapUID
	}
	unlock, err := lockUsers(ctx)
	if err != nil {
		return noted, err
	}
	uid, err := takeUser(from, offset, lease{State: s.StateDir, Box: r.ID})
	if err != nil {
		unlock()
		return noted, err
	}
	r.UID = uid + offset
	spec.User = fmt.Sprintf("%d:%d", uid, uid)
	return unlock, nil
}

// note notes a box before its container is made, with the user that it has.
func (s *setup) note(ctx context.Context, info engine.Info, spec *engine.Spec, r *boxRecord) error {
	noted, err := s.lend(ctx, info, spec, r)
	if err != nil {
		return err
	}
	r.describe(s, *spec)
	err = saveBox(s.StateDir, *r)
	noted()
	if err != nil {
		return errors.Join(err, returnUser(*r))
	}
	return nil
}

func lockUsers(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(usersDir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot note the users of sandboxes: %w", err)
	}
	f, err := lockFile(ctx, filepath.Join(usersDir, ".lock"))
	if err != nil {
		return nil, fmt.Errorf("cannot note the users of sandboxes: %w", err)
	}
	return func() { f.Close() }, nil
}

func leasePath(uid int) string { return filepath.Join(usersDir, strconv.Itoa(uid)) }

// takeUser notes a user of the range that no box has. The lock is held.
func takeUser(from uidRange, offset int, l lease) (int, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return 0, err
	}
	text = journal.Sign(text)
	take := func(uid int) (bool, error) {
		err := atomicfile.Create(leasePath(uid+offset), text, atomicfile.Options{})
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
	damaged, err := reapUsers()
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

// returnUser gives back the user of a box that is gone.
func returnUser(r boxRecord) error {
	if r.UID == 0 {
		return nil
	}
	unlock, err := lockUsers(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	if l, err := readLease(leasePath(r.UID)); err != nil || l.Box != r.ID {
		return nil //nolint:nilerr // another box has it by now, or none
	}
	if err := os.Remove(leasePath(r.UID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot give back the user of a sandbox: %w", err)
	}
	return nil
}

// readLease reads a file of leases. Those of earlier versions have no checksum.
func readLease(file string) (l lease, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return lease{}, err
	}
	if err = journal.Decode(b, &l); err == nil && (l.State == "" || l.Box == "") {
		err = errors.New("it names no container")
	}
	if err != nil {
		return lease{}, corral.Errorf(errDamagedLease, "remove it if no container has that user (corral sandbox ls), or restart the machine",
			"%s is damaged, and no sandbox gets the user ID %s: %w", file, filepath.Base(file), err)
	}
	return l, nil
}

var errDamagedLease = corral.Errorf(corral.ErrUnavailable, "", "the note of a sandbox's user is damaged")

// sweepUsers gives back the users of boxes that are gone.
func sweepUsers(ctx context.Context) error {
	if _, err := os.Stat(usersDir); err != nil || os.Geteuid() != 0 {
		return nil //nolint:nilerr // no box has any
	}
	unlock, err := lockUsers(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	damaged, err := reapUsers()
	return errors.Join(damaged, err)
}

// reapUsers removes leases whose box is gone, unless a process has the user all
// the same: its state directory may have been removed by hand. It returns what leases
// are damaged. The lock is held.
func reapUsers() (damaged, err error) {
	list, err := os.ReadDir(usersDir)
	if err != nil {
		return nil, fmt.Errorf("cannot look at the users of sandboxes: %w", err)
	}
	var void []int
	for _, e := range list {
		uid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		l, err := readLease(leasePath(uid))
		if errors.Is(err, errDamagedLease) {
			damaged = errors.Join(damaged, err)
			continue
		}
		if err == nil {
			_, err = os.Stat(boxDir(l.State, l.Box))
		}
		if errors.Is(err, fs.ErrNotExist) {
			void = append(void, uid)
		}
	}
	if len(void) == 0 {
		return damaged, nil
	}
	live, err := liveUsers()
	if err != nil {
		return damaged, err
	}
	var errs []error
	for _, uid := range void {
		if !live[uid] {
			errs = append(errs, os.Remove(leasePath(uid)))
		}
	}
	return damaged, errors.Join(errs...)
}

// liveUsers are the users of this machine's processes.
func liveUsers() (map[int]bool, error) {
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return nil, err
	}
	live := map[int]bool{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(b), "\nUid:")
		line, _, _ := strings.Cut(rest, "\n")
		for _, id := range strings.Fields(line) {
			if n, err := strconv.Atoi(id); err == nil {
				live[n] = true
			}
		}
	}
	return live, nil
}
