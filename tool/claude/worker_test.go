package claude_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/claudeapi"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/tool/claude"
	"github.com/corral-exec/corral/tool/claude/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is a worker with an executor that knows a few commands. Their text is that of the
// arguments.
type rig struct {
	t   *testing.T
	api *claudeapi.API
	log logtest.Log

	mu     sync.Mutex
	opened []string
	closed int
}

type closing struct {
	*fakeexec.Executor
	rig *rig
}

func (c closing) Close() error {
	c.rig.mu.Lock()
	defer c.rig.mu.Unlock()
	c.rig.closed++
	return c.Executor.Close()
}

func newRig(t *testing.T) *rig { return &rig{t: t, api: claudeapi.New(t)} }

func (g *rig) options() claude.Options {
	return claude.Options{
		Job: job.Job{API: g.api.URL, Environment: claudeapi.Environment, Key: claudeapi.Key, Sessions: 2}, Log: slog.New(slog.NewTextHandler(&g.log, nil)),
		Open: func(session string) (claude.Executor, error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.opened = append(g.opened, session)
			prepared := func(io *fakeexec.IO) int { return 0 }
			return closing{&fakeexec.Executor{Programs: map[string]fakeexec.Program{
				`sh -c mkdir -p "$1" && cat >"$1/rc" sh /tmp/claude-` + session: prepared,
				"bash -c -- echo":  fakeexec.Print("out\n", "", 3),
				"bash -c -- sleep": fakeexec.Sleep,
				"bash -c -- trap": func(io *fakeexec.IO) int { // ends by itself after its time-out
					io.Ignore(corral.SIGTERM)
					time.Sleep(100 * time.Millisecond)
					return 0
				},
			}}, g}, nil
		},
	}
}

// run runs a worker until the sessions have been given back.
func (g *rig) run(sessions ...*claudeapi.Session) {
	g.t.Helper()
	g.t.Setenv("TMPDIR", g.t.TempDir())
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- claude.Run(ctx, g.options()) }()
	for _, s := range sessions {
		select {
		case <-s.Ended():
		case <-ctx.Done():
			g.t.Fatalf("%s was not given back\n%s", s.ID, &g.log)
		}
	}
	cancel()
	if err := <-done; err != nil {
		g.t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "*")); err != nil || len(left) > 0 {
		g.t.Errorf("%q is left: %v", left, err)
	}
	if g.closed != len(g.opened) {
		g.t.Errorf("%d of %d executors are closed", g.closed, len(g.opened))
	}
	if strings.Contains(g.log.String(), claudeapi.Key) {
		g.t.Error("the key is in the log")
	}
}

// begun waits until a session is served.
func (g *rig) begun() {
	g.t.Helper()
	for end := time.Now().Add(time.Minute); g.api.Most() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			g.t.Fatal("no session was begun")
		}
	}
}

func bash(command string, more ...any) claudeapi.Call {
	in := map[string]any{"command": command}
	for i := 0; i < len(more); i += 2 {
		in[more[i].(string)] = more[i+1]
	}
	return claudeapi.Call{Tool: "bash", Input: in}
}

func TestSession(t *testing.T) {
	g := newRig(t)
	s := g.api.Add(&claudeapi.Session{ID: "sesn_1", Calls: []claudeapi.Call{bash("echo"), bash(""), bash("sleep", "timeout_ms", 20), bash("trap", "timeout_ms", 20), {Tool: "read", Input: map[string]any{"view_range": []int{1}}}}})
	g.run(s)
	want := []claudeapi.Result{
		{Text: "out\nexit code 3", Error: true},
		{Text: "command is required", Error: true},
		{Text: "timed out, signal SIGTERM (15)", Error: true},
		{Text: "timed out, exit code 0", Error: true},
		{Text: "file_path is required, and view_range is [start_line, end_line]", Error: true},
	}
	if diff := cmp.Diff(want, s.Results()); diff != "" {
		t.Error(diff)
	}
}

// More sessions than may run at once wait, and all get done.
func TestSessionsAtOnce(t *testing.T) {
	g := newRig(t)
	var all []*claudeapi.Session
	for i := range 4 {
		all = append(all, g.api.Add(&claudeapi.Session{ID: fmt.Sprint("sesn_", i), Calls: []claudeapi.Call{bash("sleep", "timeout_ms", 300)}}))
	}
	g.run(all...)
	if n := g.api.Most(); n != 2 {
		t.Errorf("%d sessions ran at once", n)
	}
}

// What is no session that this worker can serve is given back, and nothing runs for it.
func TestGivenBack(t *testing.T) {
	g := newRig(t)
	health := g.api.Add(&claudeapi.Session{ID: "check_1", Type: "healthcheck"})
	odd := g.api.Add(&claudeapi.Session{ID: "a b", Calls: []claudeapi.Call{bash("echo")}})
	memory := g.api.Add(&claudeapi.Session{ID: "sesn_1", Memory: true, Calls: []claudeapi.Call{bash("echo")}})
	g.run(health, odd, memory)
	if len(memory.Results())+len(odd.Results()) > 0 || len(g.opened) != 1 {
		t.Errorf("%v %v %q", memory.Results(), odd.Results(), g.opened)
	}
	if !strings.Contains(g.log.String(), "memory stores") {
		t.Errorf("the log does not say why:\n%s", &g.log)
	}
}

func TestRefused(t *testing.T) {
	g := newRig(t)
	o := g.options()
	o.Key = "another"
	err := claude.Run(t.Context(), o)
	if !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "401 Unauthorized: invalid key") || corral.Hint(err) == "" {
		t.Errorf("%v", err)
	}
}

// A key that is refused while a session runs ends the worker, and the session.
func TestRevoked(t *testing.T) {
	g := newRig(t)
	s := g.api.Add(&claudeapi.Session{ID: "sesn_1", Calls: []claudeapi.Call{bash("sleep")}})
	done := make(chan error, 1)
	go func() { done <- claude.Run(t.Context(), g.options()) }()
	g.begun()
	g.api.Revoke()
	if err := <-done; !errors.Is(err, corral.ErrDenied) {
		t.Errorf("%v", err)
	}
	<-s.Ended()
}

// When a worker is stopped, its session is given back at once, and the command is ended.
func TestStopped(t *testing.T) {
	g := newRig(t)
	s := g.api.Add(&claudeapi.Session{ID: "sesn_1", Calls: []claudeapi.Call{bash("sleep")}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- claude.Run(ctx, g.options()) }()
	g.begun()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	select {
	case <-s.Ended():
	default:
		t.Error("the session was not given back")
	}
}
