package daemon

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/e2b"
	"github.com/corral-exec/corral/internal/decided"
	"github.com/corral-exec/corral/internal/state/journal"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/sandbox"
)

// The commands of a conversation with a sandbox of E2B's go there and nowhere else,
// whatever is configured, and only those of its agent.
func TestE2BSandbox(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json5")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{sandbox: {mode: "all", memory: "1g", lifetime: 60, workspaceAccess: "rw", prune: {idleHours: 1}}, agents: {list: [{id: "mine", workspace: "/srv"}]}, gateway: {e2b: {listen: "127.0.0.1:1", pool: 3}}}`)
	opened := map[string]SandboxOptions{}
	m := &fakeMachine{}
	b := m.backends()
	b.Sandbox = func(o SandboxOptions) (Executor, error) {
		opened[o.Name] = o
		x := &fakeexec.Executor{Info: corral.Info{Host: corral.HostSandbox, Sandboxed: true}, Programs: map[string]fakeexec.Program{"go": fakeexec.Print(o.Name, "", 0)}}
		return knowing{x}, nil
	}
	h, err := openHosts(&Options{Backends: b, Config: ConfigFile{Path: file, Named: true}, Log: slog.New(slog.DiscardHandler)}, dir, false, alone)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	box := e2b.Box{ID: "iaaaaaaaaaaaaaaaaaaa", Agent: "mine", Image: "special", End: time.Now().Add(time.Hour)}
	store := func() {
		t.Helper()
		data, err := journal.Seal(box)
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, e2bDir)
		if err := errors.Join(os.MkdirAll(at, 0o700), os.WriteFile(filepath.Join(at, box.ID+".json"), data, 0o600)); err != nil {
			t.Fatal(err)
		}
		if h.e2b, err = e2b.OpenStore(at); err != nil {
			t.Fatal(err)
		}
	}
	store()
	start := func(agent string, cmd corral.Command) error {
		t.Helper()
		ex, err := h.executor(t.Context(), agent)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Shell, cmd.Decided = "go", decided.About{Fresh: true}
		_, err = ex.Start(config.WithCaller(t.Context(), config.Caller{Session: box.Session()}), cmd)
		return err
	}
	if err := start("mine", corral.Command{}); err != nil {
		t.Fatal(err)
	}
	if o := opened[box.ID]; o.Workspace.Home != e2b.Home || o.Image != "special" || o.Resources.Memory != 1<<30 || o.Workspace.Dir != "" || o.Workspace.Access != "" || o.Lifetime != 0 || o.Owner != "mine" {
		t.Errorf("%+v", o)
	}
	if err := start("other", corral.Command{}); !errors.Is(err, corral.ErrNotFound) || len(opened) != 1 {
		t.Errorf("another agent gets there, or elsewhere: %v, %+v", err, opened)
	}
	if o := h.pruning(box.ID, "mine"); o != (sandbox.PruneOptions{}) {
		t.Errorf("it is pruned: %+v", o)
	}
	if o := h.pruning("mine", "mine"); o.Idle != time.Hour {
		t.Errorf("%+v", o)
	}
	if p := h.wantedE2B(); p.size != 3 || p.settings.Workspace.Home != e2b.Home || p.settings.Resources.Memory != 1<<30 {
		t.Errorf("the pool is %+v", p)
	}
	if err := start("mine", corral.Command{Host: corral.HostGateway}); err == nil {
		t.Error("a command went to the gateway's host")
	}
	box.Paused = true
	store()
	if err := start("mine", corral.Command{}); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("while it is paused: %v", err)
	}
	box.Paused = false
	store()
	write(`{sandbox: {mode: "off"}, tools: {exec: {security: "full", ask: "off"}}, gateway: {e2b: {listen: "127.0.0.1:1", pool: 3}}}`)
	for _, host := range []corral.Host{"", corral.HostSandbox, corral.HostGateway} {
		if err := start("mine", corral.Command{Host: host}); !errors.Is(err, corral.ErrDenied) {
			t.Errorf("without a sandbox, on host %q: %v", host, err)
		}
	}
	if p := h.wantedE2B(); p.size != 0 {
		t.Errorf("the pool is %+v", p)
	}
}
