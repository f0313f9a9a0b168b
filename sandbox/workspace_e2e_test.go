//go:build e2e

package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/traces"
	"github.com/corral-exec/corral/sandbox"
)

const workspaceSize = 32 << 20

func sized(c *sandbox.Config) { c.Workspace.Size = workspaceSize }

// fills fills the workspace, once with bytes and once with files, and demands
// that both end at a limit and the next command finds room again.
func fills(t *testing.T, e corral.Executor) {
	t.Helper()
	if text := output(t, e, "dd if=/dev/zero of=big bs=1M count=100; rm big"); !strings.Contains(text, "No space left on device") {
		t.Errorf("bytes: %s", text)
	}
	text := output(t, e, `mkdir many; i=0; while true >many/f$i; do i=$((i+1)); test $i -lt 10000 || break; done; ls many | wc -l; rm -rf many`)
	n := 0
	for _, word := range strings.Fields(text) {
		_, _ = fmt.Sscanf(word, "%d", &n)
	}
	if n < 1000 || n > workspaceSize/(8<<10) {
		t.Errorf("%d files: %s", n, text)
	}
	ended(t, begin(t, e, "", "echo kept >file"), 0)
}

func TestWorkspaceIsLimited(t *testing.T) {
	for name, change := range map[string]func(*sandbox.Config){
		"fds":    nil,
		"frames": func(c *sandbox.Config) { c.Driver = sandbox.DriverFrames },
		"exec":   func(c *sandbox.Config) { c.Driver = sandbox.DriverExec },
		"gvisor": func(c *sandbox.Config) { c.Runtime = "runsc" },
	} {
		t.Run(name, func(t *testing.T) { limited(t, newBench(t), change) })
	}
}

func TestWorkspaceIsLimitedContainerd(t *testing.T) {
	b := newBench(t)
	b.cfg.Engine = enginetest.Containerd(t)
	limited(t, b, nil)
}

func limited(t *testing.T, b *bench, change func(*sandbox.Config)) {
	tr := traces.New(t, b.dir)
	b.cfg.Workspace.Size = workspaceSize
	e := b.open(change)
	fills(t, e)
	dir, err := e.HostWorkspace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Files that come from outside are in it as well.
	files, err := e.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := files.Stat(t.Context(), sandbox.Workdir+"/file"); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	s, err := sandbox.Find(b.cfg.StateDir, "default")
	if err != nil || s.WorkspaceSize != workspaceSize || s.Workspace != dir {
		t.Errorf("%+v, %v", s, err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(dir+".img", &st); err != nil || st.Blocks*512 > workspaceSize+1<<20 {
		t.Errorf("the disk has %d bytes of it, %v", st.Blocks*512, err)
	}
	if tr.Look(t)["mounts"] == 0 {
		t.Error("nothing is mounted: this tests nothing")
	}
	// The next container has the same, also if nothing is mounted any more, as
	// after a start of the machine.
	if err := e.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{dir, dir + ".img"} {
		if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", left, err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(b.cfg.StateDir); err != nil {
		t.Fatal(err)
	}
	tr.Gone(t)
}

// What is in a workspace stays when its size is configured otherwise, and when
// nothing is mounted any more, as after a start of the machine.
func TestWorkspaceKeepsItsSize(t *testing.T) {
	b := newBench(t)
	e := b.open(sized)
	ended(t, begin(t, e, "", "echo kept >file"), 0)
	configure := func(size int64) {
		t.Helper()
		if err := e.Configure(b.like(func(c *sandbox.Config) { c.Workspace.Size = size })); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []int64{0, 2 * workspaceSize, -1} {
		configure(size)
		if text := output(t, e, "cat file; dd if=/dev/zero of=big bs=1M count=100; rm big"); !strings.Contains(text, "kept") || !strings.Contains(text, "No space left on device") {
			t.Errorf("%d: %s", size, text)
		}
	}
	configure(workspaceSize / 2)
	_, err := e.Start(t.Context(), corral.Command{Shell: "true"})
	if err == nil || !strings.Contains(err.Error(), "was made with 33554432, and cannot be limited to 16777216 bytes") || !strings.Contains(corral.Hint(err), "corral sandbox rm default") {
		t.Errorf("%v\nhint: %s", err, corral.Hint(err))
	}
	dir, err := e.HostWorkspace(t.Context()) // what is there can be fetched
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "file")); string(text) != "kept\n" {
		t.Errorf("%q, %v", text, err)
	}
	configure(workspaceSize)
	b.await(1)
	if _, err := e.Prune(t.Context(), sandbox.PruneOptions{Age: 1}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if text := output(t, e, "cat file"); text != "kept\n" {
		t.Errorf("%q", text)
	}
	// Old, and idle: it goes, with what it is on.
	b.nothing("default")
}

// A workspace from before there was a size has none, and is refused.
func TestWorkspaceFromBefore(t *testing.T) {
	b := newBench(t)
	e := b.open(nil)
	ended(t, begin(t, e, "", "echo kept >file"), 0)
	if err := e.Configure(b.like(sized)); err != nil {
		t.Fatal(err)
	}
	_, err := e.Start(t.Context(), corral.Command{Shell: "true"})
	if !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "was made without a limit") {
		t.Errorf("%v\nhint: %s", err, corral.Hint(err))
	}
	if err := e.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	fills(t, e)
	b.nothing("default")
}

// A box of a pool has such a workspace too. It is removed with the sandbox that took the
// box, or with the pool.
func TestWorkspaceOfPool(t *testing.T) {
	b := newBench(t)
	b.cfg.Workspace.Size = workspaceSize
	p, err := sandbox.NewPool(b.cfg, 2)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); p.Ready() < 2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the pool is not filled")
		}
	}
	p.Freeze()
	e := b.open(func(c *sandbox.Config) { c.Pool = p })
	fills(t, e)
	if n := p.Ready(); n != 1 {
		t.Errorf("%d wait", n)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	ended(t, begin(t, e, "", "test -e file"), 0)
	b.nothing("default")
}

// Killed while it makes a workspace, a program leaves what a sweep finds.
func TestKilledAtWorkspaceSteps(t *testing.T) {
	for _, step := range sandbox.WorkspaceSteps {
		t.Run(step, func(t *testing.T) {
			b := newBench(t)
			b.cfg.Workspace.Size = workspaceSize
			tr := traces.New(t, b.dir)
			b.perform(script{Name: "default", Pids: []int64{100}, Die: step, Size: workspaceSize}, time.Minute)
			left, err := filepath.Glob(filepath.Join(b.cfg.StateDir, "workspaces", "*.img"))
			if err != nil || len(left) != 1 {
				t.Fatalf("%v, %v: this tests nothing", left, err)
			}
			tr.Look(t)
			// The sandbox refers to it: the next life goes on with it.
			b.sweepTo(0)
			fills(t, b.open(nil))
			if again, err := filepath.Glob(filepath.Join(b.cfg.StateDir, "workspaces", "*.img")); err != nil || len(again) != 1 || again[0] != left[0] {
				t.Errorf("%v, %v; want %v", again, err, left)
			}
			b.nothing("default")
			// Without anything that refers to it it goes.
			b.perform(script{Name: "other", Pids: []int64{100}, Die: step, Size: workspaceSize}, time.Minute)
			if err := os.RemoveAll(filepath.Join(b.cfg.StateDir, "sandboxes", "other")); err != nil {
				t.Fatal(err)
			}
			b.nothing()
			// An ephemeral one goes with its directory.
			state := b.cfg.StateDir
			b.cfg.StateDir = filepath.Join(b.dir, "once")
			b.perform(script{Name: "once", Pids: []int64{100}, Die: step, Size: workspaceSize, Ephemeral: true}, time.Minute)
			mounted := tr.Look(t)["mounts"] > 0
			if mounted != (step == sandbox.WorkspaceSteps[1]) {
				t.Errorf("mounted %v", mounted)
			}
			if _, err := sandbox.Sweep(t.Context(), b.engine, state); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(b.cfg.StateDir); mounted && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", b.cfg.StateDir, err)
			}
			for _, dir := range []string{state, b.cfg.StateDir} {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			tr.Gone(t)
		})
	}
}

// Mounted where the engine does not see it, a workspace would not be limited: no
// command runs then.
func TestWorkspaceInAnotherNamespace(t *testing.T) {
	for runtime, want := range map[string]string{"runc": "another file was mounted at /workspace", "runsc": "/workspace: permission denied"} {
		t.Run(runtime, func(t *testing.T) {
			b := newBench(t)
			s := script{State: b.cfg.StateDir, Warden: b.cfg.WardenPath, Name: "default", Pids: []int64{100}, Wait: true, Size: workspaceSize, Runtime: runtime}
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, "/proc/self/exe")
			cmd.Env = append(os.Environ(), scriptVar+"="+string(text))
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%v: %s", err, out)
			}
			left, err := filepath.Glob(filepath.Join(b.cfg.StateDir, "workspaces", "*", "*"))
			if err != nil || len(left) > 0 {
				t.Errorf("%v, %v", left, err)
			}
			b.nothing("default")
		})
	}
}

// In memory a workspace is the container's, and of it nothing is left.
func TestWorkspaceInMemory(t *testing.T) {
	for _, runtime := range []string{"", "runsc"} {
		t.Run(runtime, func(t *testing.T) {
			b := newBench(t)
			b.cfg.Workspace.Medium, b.cfg.Workspace.Size, b.cfg.Runtime = sandbox.MediumMemory, workspaceSize, runtime
			e := b.open(limit(100))
			if text := output(t, e, "dd if=/dev/zero of=big bs=1M count=100; rm big"); !strings.Contains(text, "No space left on device") {
				t.Errorf("bytes: %s", text)
			}
			ended(t, begin(t, e, "", "echo kept >file"), 0)
			files, err := e.Files(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := files.Stat(t.Context(), sandbox.Workdir+"/file"); err != nil {
				t.Error(err)
			}
			if err := e.Configure(b.like(limit(101))); err != nil {
				t.Fatal(err)
			}
			ended(t, begin(t, e, "", "test ! -e file && touch file"), 0)
			if s, err := sandbox.Find(b.cfg.StateDir, "default"); err != nil || s.Workspace != "" {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

// A caller that names the workspace as this machine does is told its name in the sandbox.
func TestWorkspaceByItsNameHere(t *testing.T) {
	work := testdir.New(t)
	if err := os.Mkdir(filepath.Join(work, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	e := newBox(t, sandbox.Config{Workspace: sandbox.Workspace{Dir: work, Access: sandbox.AccessReadWrite}})
	for dir, want := range map[string]string{
		work:                        "/workspace",
		filepath.Join(work, "sub/"): "/workspace/sub",
		work + "-other":             "",
		"/nowhere":                  "",
	} {
		_, err := e.Start(t.Context(), corral.Command{Shell: "true", Dir: dir})
		hint := corral.Hint(err)
		if !errors.Is(err, corral.ErrDir) || want != "" && hint != "in the sandbox it is "+want || want == "" && strings.Contains(hint, "/workspace") {
			t.Errorf("%s: %v; %s", dir, err, hint)
		}
	}
}
