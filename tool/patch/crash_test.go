//go:build unix

package patch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/test/moments"
)

// everyKind are the files for a patch with every kind of change.
var everyKind = map[string]string{
	"change.txt":   "one\ntwo\nthree\n",
	"run.sh":       "#!/bin/sh\necho old\n",
	"move.txt":     "to be moved\n",
	"gone.txt":     "to be deleted\n",
	"link":         "-> gone.txt",
	"again.txt":    "to be deleted and made again\n",
	"dir/deep.txt": "deep\n",
}

var everyKindPatch = patchOf(
	"*** Update File: change.txt", "@@", " one", "-two", "+TWO",
	"*** Update File: run.sh", "@@", "-echo old", "+echo new",
	"*** Update File: move.txt", "*** Move to: new/place/moved.txt", "@@", "-to be moved", "+moved",
	"*** Delete File: gone.txt",
	"*** Delete File: link",
	"*** Delete File: again.txt",
	"*** Add File: again.txt", "+made again",
	"*** Add File: new/added.txt", "+added",
	"*** Update File: dir/deep.txt", "@@", "-deep", "+deeper",
)

func makeEveryKind(t *testing.T) (dir string, before tree) {
	t.Helper()
	dir = inMemory(t)
	write(t, dir, everyKind)
	if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, snapshot(t, dir)
}

// afterEveryKind is the tree after that patch.
func afterEveryKind(t *testing.T) tree {
	t.Helper()
	dir, _ := makeEveryKind(t)
	r := call(t, dir, everyKindPatch)
	if want := "Success. Updated the following files:\nA new/added.txt\nM change.txt\nM run.sh\nM new/place/moved.txt\nM again.txt\nM dir/deep.txt\nD gone.txt\nD link"; r.Text() != want {
		t.Fatalf("%q", r.Text())
	}
	after := snapshot(t, dir)
	for name, want := range map[string]string{
		"change.txt": "-rw-r--r--\none\nTWO\nthree\n", "run.sh": "-rwxr-xr-x\n#!/bin/sh\necho new\n",
		"new/place/moved.txt": "-rw-r--r--\nmoved\n", "again.txt": "-rw-r--r--\nmade again\n", "new/added.txt": "-rw-r--r--\nadded\n",
	} {
		if after[name] != want {
			t.Fatalf("%s: %q", name, after[name])
		}
	}
	if len(after) != 9 {
		t.Fatalf("%q", after)
	}
	return after
}

// If any step fails, nothing is changed, or the patch was already applied. Where each
// step is a process, a third of them fail: what follows a failure is the same code.
func TestFailureAtEachStep(t *testing.T) {
	after := afterEveryKind(t)
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			next := 1
			if name == "commands" {
				next = 3
			}
			for step, failed := 1, true; failed; step += next {
				dir, before := makeEveryKind(t)
				steps := 0
				f := faulty{target(t, dir), func(n int) error {
					if failed = n >= step; n == step {
						return syscall.ENOSPC
					}
					return nil
				}, &steps, nil}
				r := New(Config{Target: f}).Call(t.Context(), callArguments(t, everyKindPatch))
				if !failed {
					break
				}
				want := before
				if !r.Failed() {
					want = after
				} else if r.Reason != ReasonUnavailable || !strings.Contains(r.Text(), "no space left") || !strings.Contains(r.Text(), "No file was changed.") {
					t.Errorf("step %d: %+v", step, r)
				}
				if _, err := Recover(t.Context(), Directory{Path: dir}); err != nil {
					t.Error(err)
				}
				if d := differs(snapshot(t, dir), want); d != "" {
					t.Errorf("step %d (%v):\n%s", step, r.Status, d)
				}
			}
		})
	}
}

// On a file system without hard links, files are saved in another way.
func TestWithoutHardLinks(t *testing.T) {
	after := afterEveryKind(t)
	for step, failed := 1, true; failed; step++ {
		dir, before := makeEveryKind(t)
		steps := 0
		f := faulty{noLinksTarget{Directory{Path: dir}}, func(n int) error {
			if failed = n >= step; n == step {
				return syscall.EIO
			}
			return nil
		}, &steps, nil}
		r := New(Config{Target: f}).Call(t.Context(), callArguments(t, everyKindPatch))
		want := before
		if !r.Failed() {
			want = after
		}
		if _, err := Recover(t.Context(), Directory{Path: dir}); err != nil {
			t.Error(err)
		}
		if d := differs(snapshot(t, dir), want); d != "" {
			t.Errorf("step %d (%v):\n%s", step, r.Status, d)
		}
	}
}

type noLinksTarget struct{ Target }

func (n noLinksTarget) open(ctx context.Context) (workspace, error) {
	ws, err := n.Target.open(ctx)
	return noLinksWorkspace{ws}, err
}

type noLinksWorkspace struct{ workspace }

func (noLinksWorkspace) link(context.Context, string, string) error { return syscall.EPERM }

var errDead = errors.New("the program is dead")

// A program dies at any step, and its successor dies at any step of undoing. In the end
// the patch is applied in full or not at all.
func TestDeathAtEachStep(t *testing.T) {
	after := afterEveryKind(t)
	dieAt := func(dir string, step int, do func(Target)) (died bool) {
		steps := 0
		do(faulty{Directory{Path: dir}, func(n int) error {
			if died = n >= step; died {
				return errDead
			}
			return nil
		}, &steps, nil})
		return died
	}
	states := map[string]int{}
	for step := 1; ; step++ {
		dir, before := makeEveryKind(t)
		if !dieAt(dir, step, func(tg Target) { New(Config{Target: tg}).Call(t.Context(), callArguments(t, everyKindPatch)) }) {
			break
		}
		for again := 1; dieAt(dir, again, func(tg Target) {
			if _, err := Recover(t.Context(), tg); err != nil && !errors.Is(err, errDead) {
				t.Error(err)
			}
		}); again += 3 {
		}
		switch got := snapshot(t, dir); {
		case differs(got, before) == "":
			states["none"]++
		case differs(got, after) == "":
			states["all"]++
		default:
			t.Errorf("death at step %d:\n%s", step, differs(got, before))
		}
	}
	if states["none"] < 20 || states["all"] < 5 {
		t.Errorf("%v: it did not die often enough", states)
	}
}

// childVariable is the environment variable with the directory and the step for the child.
const childVariable = "CORRAL_TEST_PATCH"

// child applies everyKindPatch, and kills itself at a step, or is killed.
func child() {
	dir, at, _ := strings.Cut(os.Getenv(childVariable), "\n")
	step, err := strconv.Atoi(at)
	if err != nil {
		panic(err)
	}
	steps := 0
	f := faulty{Directory{Path: dir}, func(n int) error {
		if n == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}, &steps, nil}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	r := New(Config{Target: f}).Call(context.Background(), []byte(input))
	if r.Failed() {
		fmt.Println(r.Text())
		os.Exit(1)
	}
	os.Exit(0)
}

func startChild(t *testing.T, dir string, step int) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0]) //nolint:gosec // this test
	cmd.Env = append(os.Environ(), childVariable+"="+dir+"\n"+strconv.Itoa(step))
	cmd.Stdin = strings.NewReader(string(callArguments(t, everyKindPatch)))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// The same with a real program and a real SIGKILL.
func TestKilledAtEachStep(t *testing.T) {
	after := afterEveryKind(t)
	states := map[string]int{}
	for step := 1; ; step++ {
		dir, before := makeEveryKind(t)
		cmd, out := startChild(t, dir, step)
		if _, err := io.ReadAll(out); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			break
		} else if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatal(err)
		}
		states[settled(t, dir, before, after)]++
	}
	if states["none"] < 20 || states["all"] < 5 {
		t.Errorf("%v: it was not killed often enough", states)
	}
}

// A kill can also come in the middle of a step.
func TestKilledAnyTime(t *testing.T) {
	after := afterEveryKind(t)
	rng := moments.Seeded(t, "CORRAL_PATCH_SEED")
	states := map[string]int{}
	for range 60 {
		dir, before := makeEveryKind(t)
		cmd, out := startChild(t, dir, 0)
		if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(moments.Between(rng, 0, 8*time.Millisecond))
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed, or ended before
		states[settled(t, dir, before, after)]++
	}
	t.Log(states)
}

// settled makes a further call, which undoes an interrupted patch, and says whether the
// tree is as before or as after.
func settled(t *testing.T, dir string, before, after tree) string {
	t.Helper()
	if r := call(t, dir, patchOf("*** Update File: missing", "@@", "+x")); !r.Failed() || len(r.Warnings) > 0 {
		t.Errorf("%+v", r)
	}
	got := snapshot(t, dir)
	switch {
	case differs(got, before) == "":
		return "none"
	case differs(got, after) == "":
		return "all"
	}
	t.Errorf("neither all nor nothing:\n%s", differs(got, before))
	return "neither"
}
