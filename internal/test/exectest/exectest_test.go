//go:build linux

package exectest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/procfs"
)

func TestMain(m *testing.M) {
	// What the test was started with is not for its commands.
	if err := unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		killStrays()
		if err := os.RemoveAll(progDir); err != nil {
			panic(err)
		}
		os.Exit(code)
	}))
}

// killStrays ends the daemons that localref is known not to find.
func killStrays() {
	exes, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		panic(err)
	}
	for _, exe := range exes {
		to, err := os.Readlink(exe)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(exe)))
		if err == nil && strings.HasPrefix(to, progDir+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL) // ended meanwhile: fine
		}
	}
}

// progDir holds the helper program for all tests of this package.
var progDir = func() string {
	dir, err := os.MkdirTemp("", "exectest-")
	if err != nil {
		panic(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		panic(err)
	}
	return dir
}()

var progOnce sync.Once

// refTarget is localref with a defect, or none.
func refTarget(t testing.TB, defect string) Target {
	progOnce.Do(func() { BuildTestProg(t, progDir) })
	workspace, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Target{
		Name: "localref",
		New: func(t testing.TB) corral.Executor {
			w := newWorld(t, workspace)
			w.defect = defect
			return &localref{w}
		},
		Reopen: func(t testing.TB, old corral.Executor) corral.Executor {
			w := old.(*localref).world
			if w.bad("forgets everything between lives") {
				w = newWorld(t, workspace)
			}
			return &localref{w}
		},
		Workspace: workspace,
		TestProg:  filepath.Join(progDir, "testprog"),
		BaseEnv:   refEnv,
		IgnoreEnv: []string{refToken},
		Info:      corral.Info{Host: corral.HostGateway},
		Exempt: map[string]string{
			"timeout/daemon-detached": "without a subreaper of its own an orphan's ancestry is not known",
		},
		CountProcs: countChildren,
	}
}

// countChildren counts what this process has started and not reaped.
func countChildren(t testing.TB) (alive, zombies int) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		s, err := procfs.Read(dir)
		switch {
		case err != nil || s.Parent != os.Getpid():
		case s.Ended():
			zombies++
		default:
			alive++
		}
	}
	return alive, zombies
}

func TestLocalref(t *testing.T) { Run(t, refTarget(t, "")) }
