package secrets

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/files"
)

func TestCheck(t *testing.T) {
	for name, list := range map[string]map[string]Source{
		"no source":     {"A": {}},
		"two":           {"A": {File: "/a", Env: "A"}},
		"a bad name":    {"../A": {Env: "A"}},
		"a hidden file": {".new-1": {Env: "A"}},
		"an empty name": {"": {Env: "A"}},
		"no whole path": {"A": {File: "a"}},
		"too many of it": func() map[string]Source {
			m := map[string]Source{}
			for i := range maxSecrets + 1 {
				m["S"+strings.Repeat("x", i)] = Source{Env: "A"}
			}
			return m
		}(),
	} {
		if err := Check(list); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Secrets are written for the user of commands, in memory, and are gone with
// the sandbox.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("of the file\n")
	t.Setenv("CORRAL_TEST_SECRET", "of the variable")
	list := map[string]Source{"FILE": {File: file}, "VAR": {Env: "CORRAL_TEST_SECRET"}}
	state := filepath.Join(dir, "state")
	save := func(list map[string]Source) error {
		return Write(state, "box", list, files.User{UID: 65534, GID: 65534})
	}
	t.Cleanup(func() {
		if err := Drop(state, ""); err != nil {
			t.Error(err)
		}
	})
	if err := save(list); err != nil {
		t.Fatal(err)
	}
	place, err := Place(state, "box")
	if err != nil || strings.HasPrefix(place, dir) {
		t.Errorf("%s, %v", place, err)
	}
	content := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(place, name))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(place, name))
		if err != nil || info.Mode() != 0o400 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; os.Geteuid() == 0 && uid != 65534 {
			t.Errorf("it is user %d's", uid)
		}
		return string(b)
	}
	if a, b := content("FILE"), content("VAR"); a != "of the file\n" || b != "of the variable" {
		t.Errorf("%q, %q", a, b)
	}
	// Of another container of the same sandbox: what changed, and no more.
	write("new\n")
	delete(list, "VAR")
	if err := save(list); err != nil || content("FILE") != "new\n" {
		t.Error(err)
	}
	if list, err := os.ReadDir(place); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	for name, s := range map[string]Source{"no file": {File: file + "-none"}, "a directory": {File: dir}, "no variable": {Env: "CORRAL_TEST_NO_SUCH"}} {
		list = map[string]Source{"X": s}
		if err := save(list); !errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	write(strings.Repeat("x", maxSecret+1))
	list = map[string]Source{"X": {File: file}}
	if err := save(list); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("too large: %v", err)
	}
	if err := Drop(state, "box"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(place)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
}

// All secrets of a state directory can be removed by a user who is not root, too: such a user
// may not write to the directories of secrets.
func TestDropAll(t *testing.T) {
	if os.Geteuid() == 0 {
		dir, err := os.MkdirTemp("/dev/shm", "corral-test-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestDropAll$")
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir, "TMPDIR="+dir)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	t.Setenv("CORRAL_TEST_SECRET", "value")
	state := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := Write(state, name, map[string]Source{"s": {Env: "CORRAL_TEST_SECRET"}}, files.User{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := Drop(state, ""); err != nil {
		t.Error(err)
	}
	place, err := Place(state, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(place)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
}

// A sandbox gets its secrets, also while those of the last other one are removed.
func TestWriteWhileDropped(t *testing.T) {
	state := t.TempDir()
	t.Setenv("CORRAL_TEST_SECRET", "value")
	list := map[string]Source{"s": {Env: "CORRAL_TEST_SECRET"}}
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		wg.Go(func() {
			for range 2000 {
				err := Write(state, name, list, files.User{UID: os.Geteuid(), GID: os.Getegid()})
				if err = errors.Join(err, Drop(state, name)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
