package sandbox

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

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/damagetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/files"
)

func TestParseUIDRange(t *testing.T) {
	for _, tc := range []struct {
		text string
		want uidRange
		ok   bool
	}{
		{DefaultUIDRange, uidRange{1879048192, 1879113727}, true},
		{"1000-1015", uidRange{1000, 1015}, true},
		{"shared", uidRange{}, true},
		{"2147483000-2147483646", uidRange{2147483000, 2147483646}, true},
		{"", uidRange{}, false},
		{"1000", uidRange{}, false},
		{"1000-1014", uidRange{}, false},
		{"999-2000", uidRange{}, false},
		{"2000-1000", uidRange{}, false},
		{"60000-70000", uidRange{}, false}, // nobody is in it
		{"60000-65534", uidRange{}, false},
		{"60000-65533", uidRange{60000, 65533}, true},
		{"65536-131071", uidRange{65536, 131071}, true},
		{"2147483000-2147483647", uidRange{}, false},
		{"5000000000-5000000100", uidRange{}, false},
		{"a-b", uidRange{}, false},
		{"-1000-2000", uidRange{}, false},
	} {
		got, err := parseUIDRange(tc.text)
		if got != tc.want || (err == nil) != tc.ok || err != nil && (!errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "") {
			t.Errorf("%q: %v, %v", tc.text, got, err)
		}
	}
}

func FuzzUIDRange(f *testing.F) {
	for _, s := range []string{DefaultUIDRange, "shared", "1000-1015", "-1-2", "65534-70000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseUIDRange(text)
		if err != nil || r.none() {
			return
		}
		if r.first < minUID || r.last > maxUID || r.last-r.first < minUIDs-1 || r.first <= 65534 && r.last >= 65534 {
			t.Errorf("%q is %v", text, r)
		}
	})
}

// someUsers has the leases of a test in a directory of its own.
func someUsers(t *testing.T) {
	t.Helper()
	old := usersDir
	usersDir = filepath.Join(testdir.New(t), "users")
	t.Cleanup(func() { usersDir = old })
}

// borrow takes a user for a box that is there.
func borrow(t *testing.T, state, id string, from uidRange) (boxRecord, error) {
	t.Helper()
	unlock, err := lockUsers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	uid, err := takeUser(from, 0, lease{state, id})
	if err != nil {
		return boxRecord{}, err
	}
	return boxRecord{ID: id, UID: uid}, os.MkdirAll(boxDir(state, id), 0o700)
}

// Nobody gets a user that another box has, whatever state directory it is of;
// when all are in use that is an error, and what is given back can be had again.
func TestUsersAreNotShared(t *testing.T) {
	someUsers(t)
	from := uidRange{2_000_000_000, 2_000_000_039}
	one, two := testdir.New(t), testdir.New(t)
	var mu sync.Mutex
	has := map[int]string{}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			state := []string{one, two}[i%2]
			r, err := borrow(t, state, fmt.Sprintf("box-%d", i), from)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || has[r.UID] != "" || r.UID < from.first || r.UID > from.last {
				t.Errorf("box %d has the user %d, which is %q's: %v", i, r.UID, has[r.UID], err)
			}
			has[r.UID] = r.ID
		})
	}
	wg.Wait()
	if _, err := borrow(t, one, "late", from); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(corral.Hint(err), "sandbox.uidRange") {
		t.Errorf("when all are in use: %v", err)
	}
	for uid, box := range has {
		if err := returnUser(boxRecord{ID: "another", UID: uid}); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(leasePath(uid)); err != nil {
			t.Errorf("one gave back another's: %v", err)
		}
		if err := errors.Join(returnUser(boxRecord{ID: box, UID: uid}), returnUser(boxRecord{ID: box, UID: uid})); err != nil {
			t.Error(err)
		}
		if r, err := borrow(t, one, "again", from); err != nil || r.UID != uid {
			t.Errorf("user %d was given back, and %d is taken: %v", uid, r.UID, err)
		}
		break
	}
	info, err := os.Stat(leasePath(from.first))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// What a program that was killed leaves is taken again when it is needed: but not
// a user whose processes live, as when somebody removed the state directory.
func TestUsersOfTheDead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root starts processes of other users")
	}
	someUsers(t)
	from := uidRange{2_000_000_100, 2_000_000_115}
	state := testdir.New(t)
	for i := range 16 {
		if _, err := borrow(t, state, strconv.Itoa(i), from); err != nil {
			t.Fatal(err)
		}
	}
	gone := map[int]bool{}
	for uid := from.first; uid < from.first+3; uid++ {
		l, err := readLease(leasePath(uid))
		if err == nil {
			err = os.RemoveAll(boxDir(state, l.Box))
		}
		if err != nil {
			t.Fatal(err)
		}
		gone[uid] = true
	}
	cut := from.first + 3
	if err := os.WriteFile(leasePath(cut), []byte(`{"state":"/`), 0o600); err != nil {
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
		r, err := borrow(t, state, "new-"+strconv.Itoa(i), from)
		if err != nil || !gone[r.UID] || r.UID == live {
			t.Errorf("the user %d is taken: %v", r.UID, err)
		}
		delete(gone, r.UID)
	}
	for _, err := range []error{sweepUsers(context.Background()), second(borrow(t, state, "new-2", from))} {
		if !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), leasePath(cut)+" is damaged") {
			t.Errorf("the user of a process that lives was taken, or of whom it is not known: %v", err)
		}
	}
	if _, err := os.Stat(leasePath(cut)); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// Wherever a lease is cut and whichever bit of it flips, it is as it was, or told and
// kept: its user is not lent to another.
func TestLeaseDamaged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root lends users")
	}
	someUsers(t)
	from := uidRange{2_000_000_200, 2_000_000_200 + minUIDs - 1}
	r, err := borrow(t, testdir.New(t), "one", from)
	if err != nil {
		t.Fatal(err)
	}
	file := leasePath(r.UID)
	damagetest.File(t, file, file, func(a, b lease) bool { return a == b }, func() (lease, error) {
		if err := sweepUsers(t.Context()); err != nil {
			if _, serr := os.Stat(file); serr != nil {
				t.Error(serr)
			}
			return lease{}, err
		}
		return readLease(file)
	})
	// That of an earlier version has no checksum.
	b, err := json.Marshal(lease{"/a", "b"})
	if err := errors.Join(err, os.WriteFile(file, b, 0o600)); err != nil {
		t.Fatal(err)
	}
	if l, err := readLease(file); err != nil || l != (lease{"/a", "b"}) {
		t.Errorf("%+v, %v", l, err)
	}
}

// A user is noted before its box is, and nobody takes it in between.
func TestUserNotedBeforeBox(t *testing.T) {
	someUsers(t)
	s := &setup{Config: Config{StateDir: testdir.New(t), Name: "x"}}
	s.Engine = noEngine{}
	if err := s.complete(); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root lends users")
	}
	info := engine.Info{Local: true, Arch: "amd64"}
	r := boxRecord{ID: "x-1", Sandbox: "x", Version: storeVersion}
	spec := engine.Spec{User: s.User, Mounts: []engine.Mount{{Target: Workdir}}}
	noted, err := s.lend(t.Context(), info, &spec, &r)
	if err != nil || r.UID < 1879048192 || spec.User != fmt.Sprintf("%d:%d", r.UID, r.UID) {
		t.Fatalf("%+v, %q, %v", r, spec.User, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if unlock, err := lockUsers(ctx); err == nil {
		unlock()
		t.Error("leases can be swept before the box is noted")
	}
	noted()
	b, err := os.ReadFile(leasePath(r.UID))
	var l lease
	if err := errors.Join(err, json.Unmarshal(b, &l)); err != nil || l != (lease{s.StateDir, "x-1"}) {
		t.Errorf("%s, %v", b, err)
	}
	for _, tc := range []struct {
		change func(*Config, *engine.Info)
		want   string
	}{
		{func(c *Config, _ *engine.Info) { c.User, c.anyUser = "1234:1234", false }, "sandbox.user"},
		{func(c *Config, _ *engine.Info) { c.uids = uidRange{} }, "sandbox.uidRange"},
		{func(c *Config, _ *engine.Info) { c.Runtime = "runsc" }, "kernel of its own"},
		{func(_ *Config, i *engine.Info) { i.Local = false }, "does not see"},
		{func(_ *Config, i *engine.Info) { i.Rootless = true }, "rootless"},
	} {
		c, i := s.Config, info
		tc.change(&c, &i)
		spec, r := engine.Spec{User: c.User}, boxRecord{ID: "x-2"}
		if _, err := (&setup{Config: c}).lend(t.Context(), i, &spec, &r); err != nil || r.UID != 0 || spec.User != c.User {
			t.Errorf("%s: %+v, %v", tc.want, r, err)
		}
		if why := c.sharesUser(i, nil); !strings.Contains(why, tc.want) {
			t.Errorf("%q, want %q", why, tc.want)
		}
	}
	if why := s.sharesUser(info, []engine.Mount{{Source: "/proc", Target: "/p"}}); !strings.Contains(why, "/proc cannot be mounted with mapped IDs") {
		t.Errorf("a file system without mapped IDs: %q", why)
	}
}

// Every ID is somebody's: two are exchanged, and the others stay.
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
		m, err := newIdmapping(files.User{UID: 1, GID: 2}, files.User{UID: 3, GID: 4})
		if err == nil {
			err = m.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}
}
