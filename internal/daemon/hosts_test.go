package daemon

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
	"github.com/corral-exec/corral/sandbox"
)

func TestLazySandbox(t *testing.T) {
	box := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"go": fakeexec.Print("", "", 0)}}
	var opened int
	var fails error
	state := t.TempDir()
	dir := filepath.Join(state, "sandboxes", "box")
	l := &lazySandbox{stateDir: state, name: "box", options: func() SandboxOptions { return SandboxOptions{} }, open: func(SandboxOptions) (Executor, error) { opened++; return box, fails }}
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

func (b *configuredBox) ConfigureSandbox(o SandboxOptions) error {
	b.memory = append(b.memory, o.Resources.Memory)
	return b.fails
}

// A change of the settings counts for the next command, and a mistake in it only
// until it is corrected. What runs is found in any case.
func TestLazySandboxFollows(t *testing.T) {
	box := &configuredBox{Executor: &fakeexec.Executor{Programs: map[string]fakeexec.Program{"go": fakeexec.Print("", "", 0)}}}
	var now Settings
	l := &lazySandbox{stateDir: t.TempDir(), name: "box", options: func() SandboxOptions { return SandboxOptions{Settings: now} }, open: func(SandboxOptions) (Executor, error) { return box, nil }}
	start := func(id string) error {
		_, err := l.Start(t.Context(), corral.Command{ID: id, Shell: "go"})
		return err
	}
	for i, memory := range []int64{0, 0, 5, 5, 6} {
		now.Resources.Memory = memory
		if err := start(string(rune('a' + i))); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(box.memory, []int64{5, 6}) {
		t.Errorf("configured with %v", box.memory)
	}
	box.fails, now.Resources.Memory = corral.ErrInvalid, 7
	for range 2 {
		if err := start("x"); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("started by Settings that are wrong: %v", err)
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
	b.Host = func(o KeeperOptions) (Executor, error) {
		if filepath.Base(o.StateDir) != "host" || o.Workspace != "/w" {
			t.Errorf("%+v", o)
		}
		return &m.gateway, nil
	}
	o := &Options{Backends: b, Settings: Settings{Mode: ModeAll, Workspace: sandbox.Workspace{Dir: "/w"}, Resources: sandbox.Resources{Memory: 5}}, Log: slog.New(slog.DiscardHandler)}
	dir := t.TempDir()
	h, err := openHosts(o, dir, false, alone)
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
		names[m.got.Name] = true
		if m.got.Resources.Memory != 5 || m.got.StateDir != dir {
			t.Errorf("%+v", m.got)
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
	o := &Options{Backends: b, Config: ConfigFile{Path: file, Named: true}, Log: slog.New(slog.DiscardHandler)}
	h, err := openHosts(o, t.TempDir(), false, alone)
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

func TestFence(t *testing.T) {
	for _, tc := range []struct {
		fence fence
		route corral.Route
		ok    bool
	}{
		{fence{}, corral.Route{Host: corral.HostGateway, Reason: corral.RouteSandboxOff}, true},
		{fence{}, corral.Route{Host: corral.HostGateway, Reason: corral.RouteElevated}, false},
		{fence{elevated: true}, corral.Route{Host: corral.HostGateway, Reason: corral.RouteElevated}, true},
		{fence{required: true, elevated: true}, corral.Route{Host: corral.HostGateway, Reason: corral.RouteElevated}, false},
		{fence{required: true}, corral.Route{Host: corral.HostNode}, false},
		{fence{required: true}, corral.Route{Host: corral.HostSandbox, Sandboxed: true}, true},
	} {
		if err := tc.fence.check(tc.route); (err == nil) != tc.ok || err != nil && !errors.Is(err, corral.ErrDenied) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

func TestWithoutTerminal(t *testing.T) {
	environ := []string{"HOME=/h", "TERM=dumb", "COLUMNS=40", "TERMINAL=x", "TMUX=/tmp/s,1,0", "LINES", "A=TERM=b"}
	want := []string{"HOME=/h", "TERMINAL=x", "A=TERM=b"}
	if got := withoutTerminal(environ); !slices.Equal(got, want) || environ[1] != "TERM=dumb" {
		t.Errorf("%q of %q", got, environ)
	}
}
