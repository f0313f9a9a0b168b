package landlock

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/confine"
	"github.com/corral-exec/corral/internal/warden/spawn"
)

// A ruleset is used again only while each path is what it was: a file that took
// the place of another, one that came, and one that went make it another.
func TestRulesetsKept(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(path("new"), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path("new"), path(name)); err != nil {
			t.Fatal(err)
		}
	}
	write("program")
	write("later")
	if err := os.Remove(path("later")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path("work"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := &confine.Domain{Programs: []string{path("program"), path("later")}, Writable: []string{path("work")}}
	var k rulesets
	defer k.close()
	version, err := ABI()
	if err != nil {
		t.Fatal(err)
	}
	get := func() *ruleset {
		t.Helper()
		r, err := k.get(d, version)
		if err != nil {
			t.Fatal(err)
		}
		k.put(r)
		return r
	}
	last := get()
	for _, tc := range []struct {
		name   string
		change func()
		same   bool
	}{
		{"nothing", func() {}, true},
		{"a file in a directory", func() { write("work/a") }, true},
		{"another file in its place", func() { write("program") }, false},
		{"one that came", func() { write("later") }, false},
		{"one that went", func() { os.Remove(path("later")) }, false},
		{"another directory", func() { os.Rename(path("work"), path("old")); os.Mkdir(path("work"), 0o755) }, false},
		{"a link in its place", func() { os.Rename(path("program"), path("real")); os.Symlink("real", path("program")) }, true},
		{"a link to another", func() { write("other"); os.Remove(path("program")); os.Symlink("other", path("program")) }, false},
		{"nothing again", func() {}, true},
	} {
		tc.change()
		r := get()
		if (r == last) != tc.same {
			t.Errorf("%s: it is the same one: %v", tc.name, r == last)
		}
		last = r
	}
	if len(k.kept) != 1 {
		t.Errorf("%d are kept", len(k.kept))
	}
}

// As many are kept as are allowed, the last used ones, and every descriptor is
// closed in the end.
func TestRulesetsBound(t *testing.T) {
	version, err := ABI()
	if err != nil {
		t.Fatal(err)
	}
	var k rulesets
	domain := func(i int) *confine.Domain {
		return &confine.Domain{Programs: []string{fmt.Sprintf("/none/%d", i)}, AnyFile: true}
	}
	var all []*ruleset
	for i := range 2 * maxKept {
		for _, n := range []int{0, i} { // 0 is always among the last used
			r, err := k.get(domain(n), version)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
			k.put(r)
		}
	}
	if len(k.kept) != maxKept {
		t.Errorf("%d are kept", len(k.kept))
	}
	r, err := k.get(domain(0), version)
	if err != nil || r != all[0] {
		t.Errorf("the one that is used most was not kept: %v", err)
	}
	k.close()
	if _, err := unix.FcntlInt(uintptr(r.fd), unix.F_GETFD, 0); err != nil {
		t.Errorf("one that is in use is closed: %v", err)
	}
	k.put(r)
	for _, r := range all {
		if r.users != 0 {
			t.Errorf("%q has %d users", r.key, r.users)
		}
	}
}

// Many at once: none is refused what it may.
func TestStartAtOnce(t *testing.T) {
	s := new(Starter)
	defer s.Close()
	name, args := real(t, "true"), []string{"true"}
	d := confine.Domain{Programs: []string{name}, Loaders: []string{loader(t)}}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				got, err := s.Start(&d, name, args, spawn.Attr{Files: [3]int{0, 1, 2}})
				if err != nil {
					t.Error(err)
					return
				}
				var ws syscall.WaitStatus
				if _, err := syscall.Wait4(got.PID, &ws, 0, nil); err != nil || ws.ExitStatus() != 0 || !got.Enforced.Loaders {
					t.Errorf("exit code %d, in force is %+v, %v", ws.ExitStatus(), got.Enforced, err)
				}
			}
		})
	}
	group.Wait()
}
