//go:build e2e

package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/hub"
	"github.com/corral-exec/corral/internal/fleet/join"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/test/moments"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// A farm is the gateway's side of nodes, in this process, and the program of one
// node, which comes and goes.
type farm struct {
	t   *testing.T
	pl  place
	dir string // of the gateway
	hub *hub.Hub

	listen string
	cmd    *exec.Cmd
	log    bytes.Buffer
}

func newFarm(t *testing.T) *farm {
	f := &farm{t: t, pl: newPlace(t, "host"), dir: testdir.New(t), listen: "127.0.0.1:0"}
	// Everything is allowed: there is no one to approve anything.
	if err := os.WriteFile(filepath.Join(f.dir, "node.json5"), []byte(`{ tools: { exec: { security: "full", ask: "off" } } }`), 0o600); err != nil {
		t.Fatal(err)
	}
	f.open()
	t.Cleanup(func() {
		f.kill()
		if err := f.hub.Close(); err != nil {
			t.Error(err)
		}
		if text := f.log.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") {
			t.Errorf("the node says:\n%s", text)
		}
	})
	return f
}

// open begins a life of the gateway's side.
func (f *farm) open() {
	f.t.Helper()
	var err error
	if f.hub, err = hub.Open(hub.Config{Dir: f.dir, Listen: f.listen}); err != nil {
		f.t.Fatal(err)
	}
	f.listen = f.line().Hosts[0]
}

// line is where the node connects to.
func (f *farm) line() join.Line { return f.hub.Lines()[0] }

// corral is the program as it is run on the node's machine.
func (f *farm) corral(args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Dir = f.pl.Work
	cmd.Env = []string{
		roleVar + "=corral", "HOME=" + f.pl.Work, "PATH=/usr/bin:/bin", "SHELL=/bin/sh", "GORACE=atexit_sleep_ms=0",
		"CORRAL_CONFIG=" + filepath.Join(f.dir, "node.json5"), "CORRAL_STATE_DIR=" + f.pl.State, "CORRAL_WARDEN=" + f.pl.Warden, "TMPDIR=" + os.TempDir(),
	}
	return cmd
}

// begin begins a life of the node.
func (f *farm) begin(env ...string) {
	f.t.Helper()
	f.cmd = f.corral("node", "--gateway", f.line().String())
	f.cmd.Env = append(f.cmd.Env, env...)
	f.cmd.Stdout, f.cmd.Stderr = &f.log, &f.log
	if err := f.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
}

// kill ends the node, and nothing that it runs.
func (f *farm) kill() {
	if f.cmd == nil {
		return
	}
	if err := f.cmd.Process.Kill(); err != nil {
		f.t.Errorf("the node died by itself: %v\n%s", err, f.log.String())
	}
	_ = f.cmd.Wait() // it was killed
	f.cmd = nil
}

type nodeStatus struct {
	Ready, Paired bool
	Node, Name    string
	Process       struct{ Phase, Code string }
}

// status is what corral node status says.
func (f *farm) status() nodeStatus {
	f.t.Helper()
	var s nodeStatus
	out, err := f.corral("node", "status", "--json").Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		f.t.Fatal(err)
	}
	if err := json.Unmarshal(out, &s); err != nil {
		f.t.Fatalf("%s: %v", out, err)
	}
	return s
}

func (f *farm) await(what string, is func(nodeStatus) bool) nodeStatus {
	f.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		s := f.status()
		if is(s) {
			return s
		}
		if time.Now().After(end) {
			f.t.Fatalf("the node is not %s: %+v\n%s", what, s, f.log.String())
		}
	}
}

// pair makes it a node for the first time, by a setup token.
func (f *farm) pair() {
	f.t.Helper()
	token, _, err := f.hub.Registry().NewToken(time.Hour, 1, nil, "test")
	if err != nil {
		f.t.Fatal(err)
	}
	f.begin("CORRAL_NODE_TOKEN="+token, "CORRAL_NODE_NAME=builder")
	f.await("ready", func(s nodeStatus) bool { return s.Ready && s.Name == "builder" })
}

// node is the executor of the node, as soon as it is there.
func (f *farm) node(ctx context.Context) corral.Executor {
	f.t.Helper()
	for {
		x, _, err := f.hub.Nodes().Select(ctx, "builder")
		if err == nil {
			return x
		}
		if ctx.Err() != nil {
			f.t.Fatalf("%v\n%s", err, f.log.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// start starts a command until it is known that it was, or found.
func (f *farm) start(ctx context.Context, s *session) corral.Process {
	f.t.Helper()
	for {
		p, err := f.node(ctx).Start(ctx, s.Cmd)
		if err == nil {
			return p
		}
		if !errors.Is(err, corral.ErrUnavailable) && !errors.Is(err, corral.ErrLost) || ctx.Err() != nil {
			f.t.Fatalf("%s: %v", s.Cmd.ID, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// followed reads the output of sessions while it comes, whatever happens to
// their node.
type followed struct {
	running sync.WaitGroup
	mu      sync.Mutex
	errs    []error
}

func (l *followed) add(ctx context.Context, s *session, p corral.Process) {
	l.running.Go(func() {
		n, err := s.follow(ctx, p.Log(), 0)
		if want := s.bytes; err == nil && n != want {
			err = fmt.Errorf("%d bytes were read while they came, of %d", n, want)
		}
		if err != nil {
			l.mu.Lock()
			l.errs = append(l.errs, fmt.Errorf("%s: %w", s.Cmd.ID, err))
			l.mu.Unlock()
		}
	})
}

func (l *followed) wait(t *testing.T) {
	t.Helper()
	l.running.Wait()
	for _, err := range l.errs {
		t.Error(err)
	}
}

// Whatever runs on a node loses nothing by kill -9 of the node's program: no
// byte of output, and no exit status. It is run once, and the gateway goes on
// reading by itself.
func TestKillNode(t *testing.T) {
	const kills = 15
	f := newFarm(t)
	rng := moments.Seeded(t, "CORRAL_CRASH_SEED")
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	f.pair()
	silent := newSession("silent", "sleep 3; exit 15")
	silent.code = 15
	waiting := newSession("waiting", "until [ -e gate ]; do sleep 0.05; done; echo passed; exit 16")
	waiting.code = 16
	limited := newSession("limited", "sleep 50")
	limited.Cmd.Timeout, limited.code = 2*time.Second, -1
	plain := printing("plain", 1, 3_000_000, 10_000, 15*time.Millisecond, corral.LogLimit{})
	terminal := onTerminal("terminal", 3, 400_000, 1_000, 10*time.Millisecond)
	sessions := []*session{silent, waiting, limited, plain, terminal, both("both", 200, "0.02"), printing("ring", 2, 60_000_000, 100_000, 5*time.Millisecond, small)}
	processes := map[*session]corral.Process{}
	var reading followed
	for _, s := range sessions {
		p := f.start(ctx, s)
		s.learn(t, event{What: "started", ID: s.Cmd.ID, Info: p.Info()})
		processes[s] = p
	}
	reading.add(ctx, plain, processes[plain])
	reading.add(ctx, terminal, processes[terminal])

	f.kill()
	// No node lives now: a command ends, and the time of another is up.
	if err := os.WriteFile(filepath.Join(f.pl.Work, "gate"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(limited.info.StartedAt.Add(limited.Cmd.Timeout + 300*time.Millisecond)))
	next := time.Now()
	for k := range kills {
		f.begin()
		if k%3 > 0 {
			s := newSession(fmt.Sprintf("quick-%d", k), "echo quick; exit %d", k)
			s.code = k
			processes[s] = f.start(ctx, s)
			sessions = append(sessions, s)
		}
		time.Sleep(moments.Between(rng, 0, 300*time.Millisecond))
		f.kill()
	}
	f.begin()
	for _, s := range sessions {
		s.finish(ctx, t, processes[s])
		ran, err := os.ReadFile(filepath.Join(f.pl.Work, "runs", s.Cmd.ID))
		if string(ran) != "ran\n" || err != nil {
			t.Errorf("%s ran other than once: %q, %v", s.Cmd.ID, ran, err)
		}
	}
	reading.wait(t)
	if exit := limited.exit; exit == nil || exit.Reason != corral.ReasonTimeout || exit.EndedAt.After(next) {
		t.Errorf("the time-out while no node lived: %+v", exit)
	}
	if exit := waiting.exit; exit == nil || exit.EndedAt.After(next) {
		t.Errorf("the end while no node lived: %+v", exit)
	}
	if list := f.hub.Registry().Nodes(); len(list) != 1 {
		t.Errorf("a ghost: %+v", list)
	}
}

// What runs on a node goes on while the gateway is away, and while the machine
// is no node, and is found afterwards.
func TestNodeWithoutGateway(t *testing.T) {
	f := newFarm(t)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	f.pair()
	for name, away := range map[string]func(){
		"stopped": func() {
			if err := f.hub.Close(); err != nil {
				t.Fatal(err)
			}
			f.await("cut", func(s nodeStatus) bool { return !s.Ready })
			f.open()
		},
		"revoked": func() {
			if _, err := f.hub.Registry().Revoke("builder", "test"); err != nil {
				t.Fatal(err)
			}
			// What it knows and what its process does are two files, which change
			// one after the other.
			s := f.await("waiting", func(s nodeStatus) bool { return s.Process.Code != "" && !s.Paired })
			if s.Process.Phase != "waiting" {
				t.Errorf("revoked: %+v", s)
			}
			if _, _, err := f.hub.Nodes().Select(ctx, "builder"); err == nil {
				t.Error("a node that was revoked can be chosen")
			}
			if _, err := f.hub.Registry().Approve(s.Process.Code, pairing.Approval{By: "test", Name: "builder"}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		s := printing(name, 7, 1_000_000, 10_000, 15*time.Millisecond, corral.LogLimit{})
		info := f.start(ctx, s).Info()
		away()
		p, err := f.node(ctx).Attach(ctx, s.Cmd.ID)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p.Info().PID != info.PID {
			t.Errorf("%s: it is %+v now, and was %+v", name, p.Info(), info)
		}
		s.finish(ctx, t, p)
	}
	if list := f.hub.Registry().Nodes(); len(list) != 1 {
		t.Errorf("a ghost: %+v", list)
	}
	// It ends in good order, and the gateway knows at once.
	if err := f.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Wait(); err != nil {
		t.Errorf("the node ended with %v\n%s", err, f.log.String())
	}
	f.cmd = nil
	began := time.Now()
	for {
		if _, _, err := f.hub.Nodes().Select(ctx, "builder"); err != nil {
			break
		}
		if time.Since(began) > 5*time.Second {
			t.Fatal("it is still there")
		}
	}
}
