package warden

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// A process is a member of a cgroup also in one that the command made below it.
func TestNestedCgroup(t *testing.T) {
	dir := t.TempDir()
	below := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	for at, text := range map[string]string{dir: "", filepath.Dir(below): "", below: strconv.Itoa(os.Getpid()) + "\n0\n"} {
		if err := os.WriteFile(filepath.Join(at, "cgroup.procs"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tasks, ok := cgroupMembers(dir)
	if !ok || len(tasks) != 1 || tasks[0].PID != os.Getpid() {
		t.Errorf("%+v, %t: want process %d", tasks, ok, os.Getpid())
	}
}

func TestRemoveNestedCgroup(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "corral")
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	RemoveCgroup(dir)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it is left: %v", err)
	}
}

// Directories of wardens that are gone go, also below one that systemd named; those of
// others stay.
func TestSweepCgroups(t *testing.T) {
	parent := filepath.Join(t.TempDir(), `app-corral\x2dgateway[1].scope`)
	gone, alive, other := filepath.Join(parent, "corral-999999999", "one"), filepath.Join(parent, "corral-"+strconv.Itoa(os.Getpid())), filepath.Join(parent, "corral-node.service")
	for _, dir := range []string{gone, alive, other} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sweepCgroups(parent)
	for dir, want := range map[string]bool{filepath.Dir(gone): false, alive: true, other: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
