package testdir_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/internal/warden"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/sandbox"
)

// roleVar makes this test binary another process that uses directories.
const roleVar = "CORRAL_TESTDIR_ROLE"

func TestMain(m *testing.M) {
	role, ok := map[string]func() error{"victim": victim, "next": next}[os.Getenv(roleVar)]
	if !ok {
		goleak.VerifyTestMain(m)
		return
	}
	if err := role(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// commands are hard to be rid of: each says the number of its process and goes
// on for much longer than the test.
var commands = []corral.Command{
	{Shell: "echo $$; exec sleep 60"},
	{Shell: "echo $$; exec cat", Stdin: true},
	{Shell: "trap '' HUP TERM; echo $$; while :; do sleep 60; done", TTY: &corral.Size{}},
	{Shell: "env -i setsid sh -c 'echo $$; exec sleep 60' & wait", Env: map[string]string{"A": "1"}},
	{Shell: "cd / && setsid sh -c 'echo $$; exec sleep 60' & exit 0"},
}

// occupy starts the commands on hosts with and without a warden and returns
// their processes and the wardens.
func occupy(dir string, wardenPath string) (pids []int, release func() error, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	shut := filepath.Join(dir, "shut", "in")
	if err := os.MkdirAll(shut, 0o700); err != nil {
		return nil, nil, err
	}
	if err := os.Chmod(filepath.Dir(shut), 0); err != nil {
		return nil, nil, err
	}
	var closers []func() error
	release = func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	}
	for _, inProcess := range []bool{false, true} {
		state := filepath.Join(dir, fmt.Sprint("state-", inProcess))
		e, err := hostexec.New(hostexec.Config{
			StateDir: state, Workspace: dir, InProcess: inProcess, WardenPath: wardenPath,
			Environ: []string{"HOME=" + dir, "PATH=/usr/bin:/bin", "SHELL=/bin/sh"},
		})
		if err != nil {
			return nil, release, err
		}
		closers = append(closers, e.Close)
		for _, cmd := range commands {
			p, err := e.Start(ctx, cmd)
			if err != nil {
				return nil, release, err
			}
			buf := make([]byte, 100)
			chunk, err := p.Log().Read(ctx, 0, buf)
			if err != nil {
				return nil, release, err
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(chunk.Data)))
			if err != nil {
				return nil, release, err
			}
			pids = append(pids, pid)
		}
		if !inProcess {
			pid, err := wardenexec.WardenPID(filepath.Join(state, "run", "host"))
			if err != nil || pid <= 0 {
				return nil, release, fmt.Errorf("no warden: %d, %w", pid, err)
			}
			pids = append(pids, pid)
		}
	}
	return pids, release, nil
}

func gone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for end := time.Now().Add(5 * time.Second); unix.Kill(pid, 0) != unix.ESRCH; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				t.Errorf("process %d is left: %s", pid, stat)
				break
			}
		}
	}
}

func noCgroup(t *testing.T, pids []int) {
	t.Helper()
	mount, err := testdir.CgroupMount()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if left, _ := filepath.Glob(filepath.Join(mount, "*", testdir.CgroupPrefix+strconv.Itoa(pid))); mount != "" && len(left) > 0 {
			t.Errorf("cgroup %s is left", left)
		}
		if _, err := os.Stat(filepath.Join(mount, testdir.CgroupPrefix+strconv.Itoa(pid))); mount != "" && err == nil {
			t.Errorf("the cgroup of process %d is left", pid)
		}
	}
}

// What a test leaves goes with its directory.
func TestLiveTestIsCleanedUp(t *testing.T) {
	wardenPath := wardenbintest.Build(t)
	var pids []int
	var dir string
	t.Run("untidy", func(t *testing.T) {
		dir = testdir.New(t)
		var release func() error
		var err error
		pids, release, err = occupy(dir, wardenPath)
		if err != nil {
			t.Error(err)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	if want := 2*len(commands) + 1; len(pids) != want {
		t.Fatalf("%d processes, want %d", len(pids), want)
	}
	gone(t, pids)
	noCgroup(t, pids)
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

// victim occupies a directory, says by whom, and waits to be killed.
func victim() error {
	dir, err := testdir.Acquire()
	if err != nil {
		return err
	}
	pids, _, err := occupy(dir, os.Getenv("CORRAL_WARDEN"))
	if err != nil {
		return err
	}
	fmt.Println(dir)
	fmt.Println(strings.Trim(fmt.Sprint(pids), "[]"))
	time.Sleep(time.Minute)
	return errors.New("was not killed")
}

// next is a process that uses a directory once.
func next() error {
	dir, err := testdir.Acquire()
	if err != nil {
		return err
	}
	return errors.Join(testdir.Remove(dir, false), testdir.Release())
}

func role(t *testing.T, name, tmp, wardenPath string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), roleVar+"="+name, "TMPDIR="+tmp, "CORRAL_WARDEN="+wardenPath)
	cmd.Stderr = os.Stderr
	return cmd
}

// What a killed process leaves is removed by the next, and not before.
func TestDeadProcessIsCleanedUp(t *testing.T) {
	wardenPath, tmp := wardenbintest.Build(t), testdir.New(t)
	cmd := role(t, "victim", tmp, wardenPath)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // it was killed
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	lines.Scan()
	dir := lines.Text()
	lines.Scan()
	var pids []int
	for _, s := range strings.Fields(lines.Text()) {
		pid, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if want := 2*len(commands) + 1; len(pids) != want || dir == "" {
		t.Fatalf("%d processes, want %d; directory %q", len(pids), want, dir)
	}
	if err := role(t, "next", tmp, wardenPath).Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); err != nil {
		t.Fatalf("the directory of a living process was removed: %v", err)
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, 0); err != nil {
			t.Fatalf("process %d of a living process was killed: %v", pid, err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if err := role(t, "next", tmp, wardenPath).Run(); err != nil {
		t.Fatal(err)
	}
	gone(t, pids)
	noCgroup(t, pids)
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left in TMPDIR: %v, %v", left, err)
	}
}

// Two processes that begin at the same time do not take each other's directory
// for that of a dead one.
func TestSweepsSpareTheLiving(t *testing.T) {
	tmp := testdir.New(t)
	stop := make(chan struct{})
	done := make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := testdir.Sweep(tmp); err != nil {
				<-stop
				done <- err
				return
			}
		}
	}()
	for range 200 {
		lock, dir, err := testdir.MakeLocked(tmp)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatalf("a living process lost its directory: %v", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		lock.Close()
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A child that was about to execute a program when its process was killed has the lock
// of the directory, for a moment.
func TestSweepWaitsForAChild(t *testing.T) {
	tmp := testdir.New(t)
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(tmp, testdir.Prefix+strconv.Itoa(ended.Process.Pid)+"-")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "0.2")
	child.ExtraFiles = []*os.File{lock}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lock.Close()
	if err := testdir.Sweep(tmp); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of a dead process is left: %v", err)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}

func TestMentions(t *testing.T) {
	for env, want := range map[string]bool{
		"": false, "A=/tmp/d": true, "A=/tmp/d\x00B=1": true, "A=/tmp/d/x": true, "PATH=/bin:/tmp/d:/x": true,
		"A=/tmp/dd": false, "A=/tmp/dd:/tmp/d": true, "A=/tmp/d-2\x00": false,
	} {
		if got := testdir.Mentions([]byte(env), "/tmp/d"); got != want {
			t.Errorf("%q: %v", env, got)
		}
	}
}

func TestNamesAreTheOriginals(t *testing.T) {
	if testdir.WardenLock != warden.LockName || testdir.Label != sandbox.Label {
		t.Errorf("%q and %q, want %q and %q", testdir.WardenLock, testdir.Label, warden.LockName, sandbox.Label)
	}
}
