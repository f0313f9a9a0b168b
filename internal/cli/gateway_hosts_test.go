package cli

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

func TestLazySandbox(t *testing.T) {
	box := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"go": fakeexec.Print("", "", 0)}}
	var opened int
	var fails error
	state := t.TempDir()
	dir := filepath.Join(state, "sandboxes", "box")
	l := &lazySandbox{stateDir: state, name: "box", options: func() sandboxOptions { return sandboxOptions{} }, open: func(sandboxOptions) (executor, error) { opened++; return box, fails }}
	if _, err := l.Attach(t.Context(), "x"); !errors.Is(err, corral.ErrNotFound) || opened != 0 {
		t.Errorf("one that was never used: %v, opened %d times", err, opened)
	}
	fails = errors.New("no engine")
	if _, err := l.Start(t.Context(), corral.Command{Shell: "go"}); !errors.Is(err, corral.ErrUnavailable) || corral.Hint(err) == "" {
		t.Errorf("one that cannot be opened: %v", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil { // an earlier gateway used it
		t.Fatal(err)
	}
	if _, err := l.Attach(t.Context(), "x"); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("what cannot be known is not called unknown: %v", err)
	}
	fails, opened = nil, 0
	for range 2 {
		if _, err := l.Start(t.Context(), corral.Command{ID: "x", Shell: "go"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Attach(t.Context(), "x"); err != nil || opened != 1 {
		t.Errorf("%v, opened %d times", err, opened)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Start(t.Context(), corral.Command{Shell: "go"}); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("closed: %v", err)
	}
}

// A configured box notes by what it goes.
type configuredBox struct {
	*fakeexec.Executor
	memory []int64
	fails  error
}

func (b *configuredBox) configure(o sandboxOptions) error {
	b.memory = append(b.memory, o.Memory)
	return b.fails
}

// A change of the settings counts for the next command, and a mistake in it only
// until it is corrected. What runs is found in any case.
func TestLazySandboxFollows(t *testing.T) {
	box := &configuredBox{Executor: &fakeexec.Executor{Programs: map[string]fakeexec.Program{"go": fakeexec.Print("", "", 0)}}}
	var now settings
	l := &lazySandbox{stateDir: t.TempDir(), name: "box", options: func() sandboxOptions { return sandboxOptions{settings: now} }, open: func(sandboxOptions) (executor, error) { return box, nil }}
	start := func(id string) error {
		_, err := l.Start(t.Context(), corral.Command{ID: id, Shell: "go"})
		return err
	}
	for i, memory := range []int64{0, 0, 5, 5, 6} {
		now.Memory = memory
		if err := start(string(rune('a' + i))); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(box.memory, []int64{5, 6}) {
		t.Errorf("configured with %v", box.memory)
	}
	box.fails, now.Memory = corral.ErrInvalid, 7
	for range 2 {
		if err := start("x"); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("started by settings that are wrong: %v", err)
		}
	}
	if _, err := l.Attach(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	box.fails = nil
	if err := start("x"); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// Each agent has a sandbox of its own, and this machine is everybody's.
func TestHosts(t *testing.T) {
	m := &fakeMachine{}
	m.gateway.Programs = map[string]fakeexec.Program{"go": fakeexec.Print("", "", 0)}
	m.sandbox.Programs = map[string]fakeexec.Program{"go": fakeexec.Print("", "", 0)}
	b := m.backends()
	b.keeper = func(o keeperOptions) (executor, error) {
		if filepath.Base(o.stateDir) != "host" || o.workspace != "/w" {
			t.Errorf("%+v", o)
		}
		return &m.gateway, nil
	}
	a := &app{backends: b, settings: settings{Mode: modeAll, Workspace: "/w", Memory: 5}}
	dir := t.TempDir()
	h, err := a.openHosts(dir, false, alone, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, agent := range []string{"one", "two", "one"} {
		ex, err := h.executor(t.Context(), agent)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ex.Start(t.Context(), corral.Command{Shell: "go"})
		if err != nil || !p.Info().Sandboxed && p.Info().Host != corral.HostSandbox {
			t.Fatalf("%+v, %v", p, err)
		}
		names[m.sandboxGot.Name] = true
		if m.sandboxGot.Memory != 5 || m.sandboxGot.stateDir != dir {
			t.Errorf("%+v", m.sandboxGot)
		}
		for _, cmd := range []corral.Command{{Shell: "go", Elevated: true}, {Shell: "go", Host: corral.HostGateway}} {
			if _, err := ex.Start(t.Context(), cmd); !errors.Is(err, corral.ErrDenied) {
				t.Errorf("it left the sandbox: %v", err)
			}
		}
	}
	if !names["one"] || !names["two"] || len(m.opened) != 2 {
		t.Errorf("%v, opened %v", names, m.opened)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// Names that begin with ssh: are SSH hosts, of which the configuration allows
// none by itself. Others go to the nodes that the gateway listens for.
func TestSSHHosts(t *testing.T) {
	m := &fakeMachine{}
	file := filepath.Join(t.TempDir(), "config.json5")
	if err := os.WriteFile(file, []byte(`{nodes: {ssh: ["build1:0022"]}, tools: {exec: {security: "full", ask: "off"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := m.backends()
	b.keeper = func(keeperOptions) (executor, error) { return &m.gateway, nil }
	a := &app{backends: b, settings: settings{Config: file}}
	h, err := a.openHosts(t.TempDir(), false, alone, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ex, err := h.executor(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		node string
		kind error
		text string
	}{
		{"ssh:build1", corral.ErrDenied, "the SSH hosts that are allowed are build1:0022"},
		{"ssh:build1:0022", corral.ErrUnavailable, "cannot connect to ssh:build1:0022"},
		{"build1", corral.ErrUnavailable, "no node is paired"},
	} {
		_, err := ex.Start(t.Context(), corral.Command{Shell: "true", Host: corral.HostNode, Node: test.node})
		if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v", test.node, err)
		}
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}
