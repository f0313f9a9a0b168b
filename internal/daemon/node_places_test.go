package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// aNode is a node's program whose machine and sandboxes outlive it.
type aNode struct {
	*testing.T
	*NodeHost
	opt     Options
	dir     string
	machine *fakeexec.Executor
	boxes   map[string]*fakeexec.Executor // by the name of the sandbox
}

// kept is an executor that somebody else closes.
type kept struct{ *fakeexec.Executor }

func (kept) Close() error { return nil }

// keptBox is the same of a sandbox.
type keptBox struct{ knowing }

func (keptBox) Close() error { return nil }

func newNode(t *testing.T, text string) *aNode {
	t.Helper()
	programs := map[string]fakeexec.Program{"go": fakeexec.Print("", "", 0), "sleep": fakeexec.Sleep}
	n := &aNode{T: t, dir: filepath.Join(t.TempDir(), "node"), machine: &fakeexec.Executor{Programs: programs}, boxes: map[string]*fakeexec.Executor{}}
	b := (&fakeMachine{}).backends()
	b.Host = func(KeeperOptions) (Executor, error) { return kept{n.machine}, nil }
	b.Sandbox = func(o SandboxOptions) (Executor, error) {
		if o.StateDir != n.dir {
			t.Errorf("a sandbox in %s", o.StateDir)
		}
		if n.boxes[o.Name] == nil {
			n.boxes[o.Name] = &fakeexec.Executor{Programs: programs, Info: corral.Info{Sandboxed: true}}
		}
		return keptBox{knowing{n.boxes[o.Name]}}, nil
	}
	n.opt = Options{Backends: b, Settings: Settings{Mode: ModeOff}, Config: ConfigFile{Path: filepath.Join(t.TempDir(), "config.json5"), Named: true}, Log: slog.New(slog.DiscardHandler)}
	n.configure(text)
	t.Cleanup(func() {
		n.ok(n.NodeHost.Close())
		n.ok(n.machine.Close())
		for _, box := range n.boxes {
			n.ok(box.Close())
		}
	})
	n.begin()
	return n
}

func (n *aNode) ok(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func (n *aNode) configure(text string) {
	n.ok(os.WriteFile(n.opt.Config.Path, []byte(text), 0o600))
}

func (n *aNode) begin() {
	n.Helper()
	n.ok(os.MkdirAll(n.dir, 0o700))
	var err error
	n.NodeHost, err = OpenNodeHost(n.opt, n.dir)
	n.ok(err)
}

// restart is another life of the program, with another configuration.
func (n *aNode) restart(text string) {
	n.Helper()
	n.ok(n.NodeHost.Close())
	n.configure(text)
	n.begin()
}

const boxedConfig = `{sandbox: {mode: "all"}, tools: {exec: {security: "deny"}}}`

// Each agent has a sandbox of its own on a node, and what is in it is found by its
// ID alone, also when there is no sandbox any more.
func TestNodeSandboxes(t *testing.T) {
	n := newNode(t, boxedConfig)
	agents := []string{"main", "other"}
	for _, agent := range agents {
		p, err := n.StartFor(t.Context(), agent, corral.Command{ID: "of-" + agent, Shell: "sleep"})
		if err != nil || !p.Info().Sandboxed {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	n.opt.Backends.Sandbox = func(SandboxOptions) (Executor, error) { return nil, errors.New("another one") }
	n.configure(`{}`)
	for _, agent := range agents {
		p, err := n.Attach(t.Context(), "of-"+agent)
		if err != nil || !p.Info().Sandboxed || origin.Of(p) == nil || origin.Of(p).Agent != agent {
			t.Fatalf("%+v, %v", p, err)
		}
		if _, err := n.StartFor(t.Context(), "stranger", corral.Command{ID: "of-" + agent, Shell: "sleep"}); !errors.Is(err, corral.ErrConflict) {
			t.Errorf("another agent's: %v", err)
		}
		if again, err := n.StartFor(t.Context(), agent, corral.Command{ID: "of-" + agent, Shell: "sleep"}); err != nil || !again.Info().Sandboxed {
			t.Errorf("started again: %v", err)
		}
		n.ok(p.Signal(t.Context(), corral.SIGKILL))
	}
	if _, err := n.Attach(t.Context(), "nobody"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if n.machine.Starts() != 0 || len(n.boxes) != 2 {
		t.Errorf("%d commands on the machine, %d sandboxes", n.machine.Starts(), len(n.boxes))
	}
}

// Nothing leaves the sandbox but what the machine's configuration lets out.
func TestNodeElevated(t *testing.T) {
	out := func(n *aNode) error {
		_, err := n.StartFor(t.Context(), "main", corral.Command{Shell: "go", Elevated: true})
		return err
	}
	n := newNode(t, boxedConfig)
	if err := out(n); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "keeps commands in its sandbox") || !strings.Contains(corral.Hint(err), "tools.elevated.allowFrom") {
		t.Errorf("%v (%s)", err, corral.Hint(err))
	}
	// Somebody in particular is not everybody.
	n.restart(`{sandbox: {mode: "all"}, tools: {exec: {security: "full", ask: "off"}, elevated: {allowFrom: ["alice"]}}}`)
	if err := out(n); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("%v", err)
	}
	n.restart(`{sandbox: {mode: "all"}, tools: {exec: {security: "deny"}, elevated: {allowFrom: ["*"]}}}`)
	if err := out(n); !errors.Is(err, corral.ErrDenied) || n.machine.Starts() != 0 {
		t.Errorf("the machine's policy: %v", err)
	}
	const open = `{sandbox: {mode: "all"}, tools: {exec: {security: "full", ask: "off"}, elevated: {allowFrom: ["*"]}}}`
	n.restart(open)
	if err := out(n); err != nil || n.machine.Starts() != 1 {
		t.Errorf("%v", err)
	}
	n.opt.Settings.Mode = ModeRequired
	n.restart(strings.Replace(open, `mode: "all"`, "", 1))
	if err := out(n); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "required") || n.machine.Starts() != 1 {
		t.Errorf("required: %v", err)
	}
	if f := n.Features(); !slices.Equal(f, []string{"sandbox=required"}) {
		t.Errorf("%v", f)
	}
}

// A sandbox that is required and off, a configuration that cannot be used, and an
// engine that does not answer are errors, and never the machine.
func TestNodeSandboxMissing(t *testing.T) {
	n := newNode(t, `{sandbox: {required: true}, tools: {exec: {security: "full", ask: "off"}}}`)
	start := func() error {
		_, err := n.StartFor(t.Context(), "main", corral.Command{Shell: "go"})
		return err
	}
	if err := start(); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("required and off: %v", err)
	}
	n.opt.Backends.Sandbox = func(SandboxOptions) (Executor, error) { return nil, errors.New("no engine answers") }
	n.restart(`{sandbox: {mode: "all"}, tools: {exec: {security: "full", ask: "off"}}}`)
	if err := start(); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("no engine: %v", err)
	}
	if n.machine.Starts() != 0 || n.Features() == nil {
		t.Errorf("%d commands on the machine, %v", n.machine.Starts(), n.Features())
	}
}

// Gateways cannot fill the disk with sandboxes.
func TestNodeSandboxesAreBounded(t *testing.T) {
	n := newNode(t, boxedConfig)
	for i := range maxSandboxes {
		agent := fmt.Sprintf("agent-%d", i)
		n.places.box(agent, agent, ScopeKey(config.ScopeAgent, agent, ""))
	}
	if _, err := n.StartFor(t.Context(), "agent-7", corral.Command{Shell: "go"}); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	if _, err := n.StartFor(t.Context(), "one-more", corral.Command{Shell: "go"}); !errors.Is(err, corral.ErrUnavailable) || len(n.boxes) != 1 {
		t.Errorf("%v, %d sandboxes", err, len(n.boxes))
	}
}
