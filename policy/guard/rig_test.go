package guard

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// A rig is a guard over a directory of programs. All its state is on disk, so it can be
// restarted.
type rig struct {
	testing.TB
	dir    string // with bin, work, state
	expiry time.Duration
	file   *approval.File
	desk   *approval.Desk
	guard  *Guard
	nodes  Nodes
	store  approval.Store // nil: files
	log    *slog.Logger
	stop   func() // of Serve
}

const onHost = `tools: {exec: {host: "gateway", security: "allowlist", ask: "on-miss"}}`

func newRig(t testing.TB, settings string) *rig {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{TB: t, dir: dir, log: slog.New(slog.DiscardHandler)}
	for _, sub := range []string{"bin", "work", "state"} {
		r.ok(os.Mkdir(r.at(sub), 0o755))
	}
	r.write("config.json5", "{"+settings+"}")
	r.program("bin/tool", "echo tool")
	r.open()
	t.Cleanup(r.close)
	return r
}

func (r *rig) at(parts ...string) string { return filepath.Join(append([]string{r.dir}, parts...)...) }

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) write(name, text string) {
	r.Helper()
	r.ok(os.WriteFile(r.at(name), []byte(text), 0o600))
}

func (r *rig) program(name, text string) {
	r.Helper()
	r.ok(os.WriteFile(r.at(name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
}

// replace replaces a program by another file of that name.
func (r *rig) replace(name, text string) {
	r.Helper()
	r.program(name+".new", text)
	r.ok(os.Rename(r.at(name+".new"), r.at(name)))
}

func (r *rig) open() {
	r.Helper()
	live, err := config.Open(r.at("config.json5"), true)
	r.ok(err)
	r.file, err = approval.NewFile(r.at("state", "exec-approvals.json"), nil)
	r.ok(err)
	r.desk, err = approval.OpenDesk(approval.Options{
		Dir: r.at("state", "approvals"), Store: r.store, Expiry: func() time.Duration { return r.expiry },
		Remember: func(_ context.Context, rec approval.Record, rules []policy.Rule) error {
			if rec.Host == corral.HostNode && r.nodes != nil {
				return nil
			}
			return r.file.Add(rec.Agent, rec.Scope, rules...)
		},
	})
	r.ok(err)
	r.guard = New(Config{
		Settings: live.Config, File: r.file, Desk: r.desk, Plan: r.plan, Nodes: r.nodes, Home: r.at("home"), Log: r.log,
	})
}

func (r *rig) close() {
	if r.stop != nil {
		r.stop()
		r.stop = nil
	}
	r.ok(errors.Join(r.desk.Close(), r.file.Close()))
}

// again restarts the rig.
func (r *rig) again() {
	r.Helper()
	r.close()
	r.open()
}

func (r *rig) plan(_ context.Context, cmd corral.Command) (pathenv.Plan, error) {
	args := cmd.Args
	if cmd.Shell != "" {
		args = []string{"/bin/sh", "-c", cmd.Shell}
	}
	dir := cmd.Dir
	if dir == "" {
		dir = r.at("work")
	}
	return pathenv.Plan{Args: args, Dir: dir, Env: pathenv.Environment{Vars: []string{"PATH=" + r.at("first") + ":" + r.at("bin") + ":/usr/bin:/bin"}}}, nil
}

var gateway = corral.Route{Host: corral.HostGateway, Guarded: true}

// check has the guard decide for the agent main.
func (r *rig) check(cmd corral.Command) (corral.Command, error) {
	return r.guard.For("main")(r.Context(), cmd, gateway)
}

// pending is the approval that a command waits for.
func (r *rig) pending(cmd corral.Command) approval.Record {
	r.Helper()
	_, err := r.check(cmd)
	p, ok := approval.AsPending(err)
	if !ok || !errors.Is(err, corral.ErrApproval) || errors.Is(err, corral.ErrDenied) {
		r.Fatalf("%+v is not asked about: %v", cmd, err)
	}
	return p.Record
}

func (r *rig) answer(rec approval.Record, v approval.Verdict) approval.Record {
	r.Helper()
	rec, err := r.desk.Answer(r.Context(), rec.ID, approval.Answer{Decision: v, By: "alice"})
	r.ok(err)
	return rec
}

// denied checks that a command may not run, and why.
func (r *rig) denied(cmd corral.Command, why string) {
	r.Helper()
	_, err := r.check(cmd)
	if !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), why) {
		r.Errorf("%v; want denied: %s", err, why)
	}
}

// serve runs Serve until the rig is closed, and records the calls of its handler.
func (r *rig) serve() *record {
	h := &record{rig: r, sessions: map[string]bool{}, changed: make(chan struct{}, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.guard.Serve(ctx, h) }()
	r.stop = func() { cancel(); <-done }
	return h
}

// record is a Handler that records commands in place of starting them.
type record struct {
	*rig
	mu       sync.Mutex
	ran      []corral.Command
	resumed  []corral.Command
	denials  []string
	attended []bool
	sessions map[string]bool
	changed  chan struct{}
}

func (h *record) Run(ctx context.Context, rec approval.Record, cmd corral.Command) error {
	out, err := h.guard.For(rec.Agent)(ctx, cmd, gateway)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ran = append(h.ran, out)
	h.changed <- struct{}{}
	return nil
}

func (h *record) Resume(_ context.Context, _ approval.Record, cmd corral.Command) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resumed = append(h.resumed, cmd)
	h.changed <- struct{}{}
	return nil
}

func (h *record) Denied(_ context.Context, _ approval.Record, why string, attended bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.denials, h.attended = append(h.denials, why), append(h.attended, attended)
	h.changed <- struct{}{}
	return nil
}

// next waits for the next call of the handler.
func (h *record) next() {
	h.Helper()
	select {
	case <-h.changed:
	case <-time.After(20 * time.Second):
		h.Fatal("nothing follows")
	}
}

func (h *record) got() (ran []corral.Command, resumed int, denials []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ran, len(h.resumed), h.denials
}

// holds reports whether a file of the state directory has a text in it.
func (r *rig) holds(text string) bool {
	r.Helper()
	found := false
	r.ok(filepath.WalkDir(r.at("state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || strings.Contains(string(data), text)
		return err
	}))
	return found
}
