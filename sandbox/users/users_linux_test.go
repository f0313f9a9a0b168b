package users

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/damagetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
)

func TestParseRange(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Range
		ok   bool
	}{
		{DefaultRange, Range{1879048192, 1879113727}, true},
		{"1000-1015", Range{1000, 1015}, true},
		{"shared", Range{}, true},
		{"2147483000-2147483646", Range{2147483000, 2147483646}, true},
		{"", Range{}, false},
		{"1000", Range{}, false},
		{"1000-1014", Range{}, false},
		{"999-2000", Range{}, false},
		{"2000-1000", Range{}, false},
		{"60000-70000", Range{}, false}, // nobody is in it
		{"60000-65534", Range{}, false},
		{"60000-65533", Range{60000, 65533}, true},
		{"65536-131071", Range{65536, 131071}, true},
		{"2147483000-2147483647", Range{}, false},
		{"5000000000-5000000100", Range{}, false},
		{"a-b", Range{}, false},
		{"-1000-2000", Range{}, false},
	} {
		got, err := ParseRange(tc.text)
		if got != tc.want || (err == nil) != tc.ok || err != nil && (!errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "") {
			t.Errorf("%q: %v, %v", tc.text, got, err)
		}
	}
}

func FuzzRange(f *testing.F) {
	for _, s := range []string{DefaultRange, "shared", "1000-1015", "-1-2", "65534-70000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRange(text)
		if err != nil || r.None() {
			return
		}
		if r.first < minUID || r.last > maxUID || r.last-r.first < minUIDs-1 || r.first <= 65534 && r.last >= 65534 {
			t.Errorf("%q is %v", text, r)
		}
	})
}

// newTable is a table in a directory of the test's own.
func newTable(t *testing.T) Table {
	t.Helper()
	return Table{Dir: filepath.Join(testdir.New(t), "users"), Box: func(l Lease) string { return filepath.Join(l.State, l.Box) }}
}

// borrow takes a user for a box that is there.
func (tb Table) borrow(t *testing.T, state, id string, from Range) (int, error) {
	t.Helper()
	uid, noted, err := tb.Lend(t.Context(), from, 0, Lease{state, id})
	if err != nil {
		return 0, err
	}
	defer noted()
	return uid, os.MkdirAll(filepath.Join(state, id), 0o700)
}

// No two boxes get the same user, also if they are of different state directories. When all
// users are in use that is an error. A user that was given back is given out again.
func TestUsersAreNotShared(t *testing.T) {
	tb := newTable(t)
	from := Range{2_000_000_000, 2_000_000_039}
	one, two := testdir.New(t), testdir.New(t)
	var mu sync.Mutex
	has := map[int]string{}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			state := []string{one, two}[i%2]
			uid, err := tb.borrow(t, state, fmt.Sprintf("box-%d", i), from)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || has[uid] != "" || uid < from.first || uid > from.last {
				t.Errorf("box %d has the user %d, which is %q's: %v", i, uid, has[uid], err)
			}
			has[uid] = fmt.Sprintf("box-%d", i)
		})
	}
	wg.Wait()
	if _, err := tb.borrow(t, one, "late", from); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(corral.Hint(err), "sandbox.uidRange") {
		t.Errorf("when all are in use: %v", err)
	}
	for uid, box := range has {
		if err := tb.Return(uid, "another"); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(tb.path(uid)); err != nil {
			t.Errorf("one gave back another's: %v", err)
		}
		if err := errors.Join(tb.Return(uid, box), tb.Return(uid, box)); err != nil {
			t.Error(err)
		}
		if again, err := tb.borrow(t, one, "again", from); err != nil || again != uid {
			t.Errorf("user %d was given back, and %d is taken: %v", uid, again, err)
		}
		break
	}
	info, err := os.Stat(tb.path(from.first))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// What a program that was killed leaves is taken again when it is needed: but not
// a user with live processes, even after a person removed the state directory.
func TestUsersOfTheDead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root starts processes of other users")
	}
	tb := newTable(t)
	from := Range{2_000_000_100, 2_000_000_115}
	state := testdir.New(t)
	for i := range 16 {
		if _, err := tb.borrow(t, state, strconv.Itoa(i), from); err != nil {
			t.Fatal(err)
		}
	}
	gone := map[int]bool{}
	for uid := from.first; uid < from.first+3; uid++ {
		l, err := readLease(tb.path(uid))
		if err == nil {
			err = os.RemoveAll(tb.Box(l))
		}
		if err != nil {
			t.Fatal(err)
		}
		gone[uid] = true
	}
	cut := from.first + 3
	if err := os.WriteFile(tb.path(cut), []byte(`{"state":"/`), 0o600); err != nil {
		t.Fatal(err)
	}
	live := from.first + 1
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(live), Gid: uint32(live)}, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	for i := range 2 {
		uid, err := tb.borrow(t, state, "new-"+strconv.Itoa(i), from)
		if err != nil || !gone[uid] || uid == live {
			t.Errorf("the user %d is taken: %v", uid, err)
		}
		delete(gone, uid)
	}
	for _, err := range []error{tb.Sweep(context.Background()), second(tb.borrow(t, state, "new-2", from))} {
		if !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), tb.path(cut)+" is damaged") {
			t.Errorf("the user of a process that lives was taken, or of whom it is not known: %v", err)
		}
	}
	if _, err := os.Stat(tb.path(cut)); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// Wherever a Lease is cut and whichever bit of it flips, it is as it was, or told and
// kept: its user is not lent to another.
func TestLeaseDamaged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root lends users")
	}
	tb := newTable(t)
	from := Range{2_000_000_200, 2_000_000_200 + minUIDs - 1}
	uid, err := tb.borrow(t, testdir.New(t), "one", from)
	if err != nil {
		t.Fatal(err)
	}
	file := tb.path(uid)
	damagetest.File(t, file, file, func(a, b Lease) bool { return a == b }, func() (Lease, error) {
		if err := tb.Sweep(t.Context()); err != nil {
			if _, serr := os.Stat(file); serr != nil {
				t.Error(serr)
			}
			return Lease{}, err
		}
		return readLease(file)
	})
	// That of an earlier version has no checksum.
	b, err := json.Marshal(Lease{"/a", "b"})
	if err := errors.Join(err, os.WriteFile(file, b, 0o600)); err != nil {
		t.Fatal(err)
	}
	if l, err := readLease(file); err != nil || l != (Lease{"/a", "b"}) {
		t.Errorf("%+v, %v", l, err)
	}
}

// swap maps every ID once: it exchanges two, and leaves the others.
func TestSwap(t *testing.T) {
	for _, p := range [][2]int{{0, 1}, {1000, 1879048192}, {1879048192, 1000}, {65534, 65535}, {7, 7}, {maxUID, 3}} {
		next := 0
		outside := map[int]bool{}
		at := func(id int) int {
			for _, m := range swap(p[0], p[1]) {
				if id >= m.ContainerID && id < m.ContainerID+m.Size {
					return m.HostID + id - m.ContainerID
				}
			}
			return -1
		}
		for _, m := range swap(p[0], p[1]) {
			if m.ContainerID != next || m.Size <= 0 || outside[m.HostID] {
				t.Errorf("%v: %+v", p, swap(p[0], p[1]))
			}
			next, outside[m.HostID] = m.ContainerID+m.Size, true
		}
		if next != 1<<32-1 || at(p[0]) != p[1] || at(p[1]) != p[0] || at(40) != 40 || at(1<<32-2) != 1<<32-2 {
			t.Errorf("%v: %+v", p, swap(p[0], p[1]))
		}
	}
	if os.Geteuid() == 0 {
		m, err := NewMapping(files.User{UID: 1, GID: 2}, files.User{UID: 3, GID: 4})
		if err == nil {
			err = m.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// An image may have a device where programs expect a file, and to open a device can do
// things: that of a watchdog has the machine restart. A file that is no regular one is not
// opened.
func TestReplacementOpensNoDevice(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "passwd")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, fifo, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	root, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	m, err := replacement(root, "passwd", filepath.Join(dir, "new"), func(b []byte) []byte { return b })
	if m != nil || err != nil {
		t.Errorf("%v, %v", m, err)
	}
	if n, err := unix.Read(watch, make([]byte, 1<<10)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("it was opened: %d, %v", n, err)
	}
}
