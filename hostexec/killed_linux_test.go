package hostexec_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/procfs"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
)

// patience is how long a test waits for what is to happen.
const patience = 30 * time.Second

func openHost(t *testing.T, cfg hostexec.Config, log *logtest.Log) *hostexec.Executor {
	t.Helper()
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	e, err := hostexec.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// killHostWarden ends the warden as the kernel does when memory runs out.
func killHostWarden(t *testing.T, state string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(state, "run", "host", "warden.lock"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the warden has ended", func() bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) || ended(pid) })
}

func ended(pid int) bool {
	s, err := procfs.Read("/proc/" + strconv.Itoa(pid))
	return err != nil || s.Ended()
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not yet after %v: %s", patience, what)
		}
	}
}

// sleeper is a command with a daemon that has lost its session and its environment.
// It writes both numbers, and says so when it is told SIGUSR1.
const sleeper = `exec >/dev/null 2>&1 # a shell says which of its children were signalled
trap 'touch heard' USR1
env -i setsid sleep 1000 >/dev/null 2>&1 &
echo $$ $! > pids.tmp; mv pids.tmp pids
while :; do sleep 0.05; done`

type tree struct {
	dir  string
	pids []int
}

func startSleeper(t *testing.T, e corral.Executor, id string, timeout time.Duration) (corral.Process, *tree) {
	t.Helper()
	tr := &tree{dir: testdir.New(t)}
	p, err := e.Start(t.Context(), corral.Command{ID: id, Shell: sleeper, Dir: tr.dir, Timeout: timeout, Grace: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	tr.read(t)
	return p, tr
}

func (tr *tree) read(t *testing.T) {
	t.Helper()
	var b []byte
	until(t, "the command has begun", func() bool {
		var err error
		b, err = os.ReadFile(filepath.Join(tr.dir, "pids"))
		return err == nil
	})
	for _, f := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		tr.pids = append(tr.pids, pid)
	}
	t.Cleanup(func() {
		for _, pid := range tr.pids {
			if !ended(pid) {
				_ = unix.Kill(pid, unix.SIGKILL) // the test has failed
			}
		}
	})
}

func (tr *tree) gone() bool {
	for _, pid := range tr.pids {
		if !ended(pid) {
			return false
		}
	}
	return true
}

func (tr *tree) heard() bool {
	_, err := os.Stat(filepath.Join(tr.dir, "heard"))
	return err == nil
}

// waitLost waits for the end of a process whose exit was not seen.
func waitLost(t *testing.T, p corral.Process, why string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	if !errors.Is(err, corral.ErrLost) || !reflect.DeepEqual(exit, corral.Exit{}) {
		t.Fatalf("it ended with %v, %v", exit, err)
	}
	if !strings.Contains(err.Error(), why) {
		t.Errorf("the error does not say %q: %v", why, err)
	}
}

// The host's warden is killed with SIGKILL. The next one takes its commands
// over: signals reach them, what is left of their time is enforced, and how they end
// is not known.
func TestWardenKilled(t *testing.T) {
	wardenPath := wardenbintest.Build(t)
	for _, c := range []struct {
		name        string
		gatewayDead bool
		timeout     time.Duration
	}{
		{"signals", false, 0},
		{"time-out", false, 3 * time.Second},
		{"signals, the gateway dead", true, 0},
		{"time-out, the gateway dead", true, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log logtest.Log
			cfg := hostexec.Config{StateDir: filepath.Join(testdir.New(t), "state"), WardenPath: wardenPath}
			e := openHost(t, cfg, &log)
			p, tr := startSleeper(t, e, "killed", c.timeout)
			if c.gatewayDead {
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
			}
			killHostWarden(t, cfg.StateDir)
			if c.gatewayDead {
				e = openHost(t, cfg, &log)
				if c.timeout > 0 { // nobody asks
					until(t, "the time-out is enforced", tr.gone)
				}
				var err error
				if p, err = e.Attach(t.Context(), "killed"); err != nil {
					t.Fatal(err)
				}
			}
			why := "its warden was killed"
			if c.timeout == 0 {
				// The connection may just be breaking, which is not to say that it has ended.
				until(t, "the signal is passed on", func() bool {
					err := p.Signal(t.Context(), corral.Signal(unix.SIGUSR1))
					if err != nil && !errors.Is(err, corral.ErrUnavailable) {
						t.Fatalf("a signal to what runs: %v", err)
					}
					return err == nil
				})
				until(t, "the signal was heard", tr.heard)
				if e.Running() != 1 {
					t.Errorf("%d processes run", e.Running())
				}
				if err := p.Signal(t.Context(), corral.SIGKILL); err != nil {
					t.Errorf("killing it: %v", err)
				}
			} else {
				why += ", and the next one ended it when its time was up"
			}
			waitLost(t, p, why)
			until(t, "the whole tree is gone", tr.gone)
			if !strings.Contains(log.String(), "the warden was killed") {
				t.Errorf("the log says nothing of it:\n%s", log.String())
			}
			said, err := os.ReadFile(filepath.Join(cfg.StateDir, "run", "host", "warden.log"))
			if err != nil || !strings.Contains(string(said), "command killed (process "+strconv.Itoa(tr.pids[0])+") runs on") {
				t.Errorf("the warden's log does not say what it took over (%v):\n%s", err, said)
			}
			// It is as well known in the life after.
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			p, err = openHost(t, cfg, &log).Attach(t.Context(), "killed")
			if err != nil {
				t.Fatal(err)
			}
			waitLost(t, p, why)
		})
	}
}

// asKilled is set where this program runs a command in its own process, and is
// then killed; it is the directory of state and workspace.
const asKilled = "CORRAL_TEST_AS_KILLED"

func TestHelperInProcess(t *testing.T) {
	dir := os.Getenv(asKilled)
	if dir == "" {
		return // the program of TestInProcessKilled
	}
	e, err := hostexec.New(hostexec.Config{StateDir: filepath.Join(dir, "state"), InProcess: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(t.Context(), corral.Command{Shell: sleeper, Dir: dir, Timeout: 3 * time.Second, Grace: 100 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	select {}
}

// A program that supervises its command itself is killed. The next one, or a
// gateway, enforces what is left of the command's time.
func TestInProcessKilled(t *testing.T) {
	warden := wardenbintest.Build(t)
	for name, cfg := range map[string]hostexec.Config{
		"taken over in process":       {InProcess: true},
		"taken over by a warden":      {WardenPath: warden},
		"taken over by one that runs": {WardenPath: warden},
	} {
		t.Run(name, func(t *testing.T) {
			dir := testdir.New(t)
			cfg.StateDir = filepath.Join(testdir.New(t), "state")
			if strings.HasSuffix(name, "that runs") {
				before := openHost(t, cfg, new(logtest.Log))
				startSleeper(t, before, "before", 0)
				if err := before.Close(); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestHelperInProcess$")
			cmd.Env = append(os.Environ(), asKilled+"="+dir)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			tr := &tree{dir: dir}
			tr.read(t)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			if tr.gone() {
				t.Fatal("it did not run on")
			}
			state := filepath.Join(dir, "state")
			if !hostexec.KilledWithCommands(state) {
				t.Error("nothing was noted")
			}
			var log logtest.Log
			cfg.TakeOver = []string{state}
			e := openHost(t, cfg, &log)
			if res, err := runner.Run(t.Context(), e, corral.Command{Shell: "echo other"}, runner.Options{}); err != nil || !res.Exit.Success() {
				t.Errorf("%v, %v", res.Exit, err)
			}
			until(t, "the time-out is enforced", tr.gone)
			until(t, "nothing is noted any more", func() bool { return !hostexec.KilledWithCommands(state) })
		})
	}
}
