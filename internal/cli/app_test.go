package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A fakeMachine is what corral runs on in a test.
type fakeMachine struct {
	gateway, sandbox fakeexec.Executor
	opened           []string              // hosts, in order
	gatewayGot       daemon.HostOptions    // the latest
	sandboxGot       daemon.SandboxOptions // the latest
	err              map[string]error      // of opening "gateway", "sandbox" or "engine"
	eng              fakeEngine
	box              func(daemon.SandboxOptions) daemon.Executor // nil: sandbox
	choices          []string                                    // of engines
}

func (m *fakeMachine) backends() daemon.Backends {
	open := func(name string) error {
		m.opened = append(m.opened, name)
		return m.err[name]
	}
	return daemon.Backends{
		Lone: func(o daemon.HostOptions) (daemon.Executor, error) {
			m.gatewayGot = o
			return &m.gateway, open("gateway")
		},
		Sandbox: func(o daemon.SandboxOptions) (daemon.Executor, error) {
			m.sandboxGot = o
			if m.box != nil {
				return m.box(o), open("sandbox")
			}
			return &m.sandbox, open("sandbox")
		},
		Engine: func(_ context.Context, choice string) (daemon.Engine, error) {
			m.choices = append(m.choices, choice)
			return &m.eng, open("engine")
		},
	}
}

type fakeEngine struct {
	frozen []string // what was paused and resumed
	facts  doctor.EngineFacts
	images images.Engine
	rows   []daemon.SandboxRow
	swept  []string
	err    error

	containers map[string]engine.Container // by name
	stats      map[string][]engine.Stats   // one after the other

	lacks   []engine.Lack
	checked []engine.Spec // what was asked for
	removed []string
	pruned  []sandbox.PruneOptions
	closed  int
}

func (e *fakeEngine) Facts(context.Context) (doctor.EngineFacts, error) { return e.facts, e.err }
func (e *fakeEngine) Images() images.Engine                             { return e.images }
func (e *fakeEngine) Close() error                                      { e.closed++; return nil }

func (e *fakeEngine) Check(_ context.Context, s engine.Spec) ([]engine.Lack, error) {
	e.checked = append(e.checked, s)
	return e.lacks, e.err
}

func (e *fakeEngine) Sandboxes(context.Context, string) ([]daemon.SandboxRow, error) {
	return e.rows, nil
}

func (e *fakeEngine) Inspect(_ context.Context, name string) (engine.Container, error) {
	c, ok := e.containers[name]
	if !ok {
		return c, engine.ErrNoContainer
	}
	return c, e.err
}

func (e *fakeEngine) Stats(_ context.Context, name string) (engine.Stats, error) {
	if len(e.stats[name]) == 0 {
		return engine.Stats{}, engine.ErrNoContainer
	}
	s := e.stats[name][0]
	if len(e.stats[name]) > 1 {
		e.stats[name] = e.stats[name][1:]
	}
	return s, e.err
}

func (e *fakeEngine) RemoveSandbox(_ context.Context, _, name string, force bool) error {
	if name == "stuck" && !force {
		return errors.New("stuck is stuck")
	}
	e.removed = append(e.removed, name)
	return nil
}

func (e *fakeEngine) Pause(_ context.Context, _, name string) error {
	e.frozen = append(e.frozen, "pause "+name)
	return e.err
}

func (e *fakeEngine) Resume(_ context.Context, _, name string) error {
	e.frozen = append(e.frozen, "resume "+name)
	return e.err
}

func (e *fakeEngine) Sweep(context.Context, string) ([]string, error) { return e.swept, e.err }

func (e *fakeEngine) Prune(_ context.Context, _ string, of func(sandbox.Sandbox) sandbox.PruneOptions) ([]string, error) {
	e.pruned = append(e.pruned, of(sandbox.Sandbox{Name: "x", Owner: "main"}))
	return e.swept, e.err
}

// run runs corral on the machine.
func (m *fakeMachine) run(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var out, errs bytes.Buffer
	a := &app.App{Version: "v1", Stdin: null, Stdout: &out, Stderr: &errs,
		Environ: append([]string{"HOME=" + t.TempDir(), "CORRAL_STATE_DIR=" + t.TempDir(), "XDG_CONFIG_HOME=" + noConfig}, environ...), Backends: m.backends()}
	code = commands{a}.run(t.Context(), args)
	return code, out.String(), errs.String()
}

func TestExecRoutes(t *testing.T) {
	for _, tc := range []struct {
		env, args string
		opened    string // the only host that was
		code      int
	}{
		{"", "", "gateway", 0},
		{"", "--host sandbox", "sandbox", 0},
		{"", "--host gateway", "gateway", 0},
		{"", "--sandbox all", "sandbox", 0},
		{"", "--sandbox off --host sandbox", "gateway", 0},
		{"", "--sandbox all --host gateway", "gateway", 0},
		{"", "--sandbox all --elevated", "gateway", 0},
		{"", "--host sandbox --elevated", "gateway", 0},
		{"", "--sandbox required", "sandbox", 0},
		{"", "--sandbox required --host gateway", "", 125},
		{"", "--sandbox required --elevated", "", 125},
		{"", "--sandbox required --node n", "", 2},
		{"", "--node n", "", 125},
		{"", "--host node", "", 125},
		{"CORRAL_SANDBOX=all", "", "sandbox", 0},
		{"CORRAL_SANDBOX=all", "--sandbox off", "gateway", 0},
		{"CORRAL_SANDBOX=off", "--host sandbox", "sandbox", 0},
		{"CORRAL_SANDBOX=required", "--host sandbox", "sandbox", 0},
		{"CORRAL_SANDBOX=required", "--host gateway", "", 125},
		{"CORRAL_SANDBOX=", "", "gateway", 0},
		// What says how a sandbox is to be needs one.
		{"", "--ephemeral", "", 2},
		{"", "--image i", "", 2},
		{"", "--sandbox off --host sandbox --memory 1g", "", 2},
		{"", "--host gateway --cpus 1 --user 1:1", "", 2},
		{"", "--host sandbox --elevated --pids 20", "", 2},
		{"", "--host node --runtime r", "", 2},
		{"", "--workspace-access ro", "", 2},
		{"", "--workspace .", "gateway", 0},
		{"CORRAL_MEMORY=1g", "", "gateway", 0},
		{"CORRAL_SANDBOX=all", "--memory 1g", "sandbox", 0},
		{"CORRAL_SANDBOX=required", "--memory 1g --elevated", "", 125},
		{"", "--host sandbox --ephemeral --name n", "", 2},
		{"CORRAL_NAME=n", "--host sandbox --ephemeral", "sandbox", 0},
		{"", "--max-output 10", "", 2},
	} {
		m := &fakeMachine{}
		for _, ex := range []*fakeexec.Executor{&m.gateway, &m.sandbox} {
			ex.Programs = map[string]fakeexec.Program{"go": fakeexec.Print("ran\n", "", 0)}
		}
		code, stdout, stderr := m.run(t, []string{tc.env}, append(append([]string{"exec"}, strings.Fields(tc.args)...), "go")...)
		if got := strings.Join(m.opened, ","); got != tc.opened || code != tc.code || (code == 0) != (stdout == "ran\n") {
			t.Errorf("%s exec %s: opened %q, code %d, %q; want %q, %d; %s", tc.env, tc.args, got, code, stdout, tc.opened, tc.code, stderr)
		}
	}
}

// What is said about the sandbox reaches it, and a flag goes before its
// variable.
func TestExecSandboxSettings(t *testing.T) {
	m := &fakeMachine{}
	m.sandbox.Programs = map[string]fakeexec.Program{"go": fakeexec.Print("", "", 0)}
	environ := []string{"CORRAL_IMAGE=from-env", "CORRAL_MEMORY=1g", "CORRAL_NAME=from-env", "CORRAL_STATE_DIR=/s"}
	if code, _, stderr := m.run(t, environ, "exec", "--host", "sandbox", "--image", "i:1", "--runtime", "runsc", "--driver", "frames",
		"--workspace", "/w", "--cpus", "unlimited", "--pids", "7", "--user", "7:8", "go"); code != 0 {
		t.Fatal(stderr)
	}
	want := daemon.Settings{Mode: "all", Name: "from-env", Image: "i:1", Runtime: "runsc", Driver: "frames",
		Workspace: sandbox.Workspace{Dir: "/w", Access: "rw"}, Resources: sandbox.Resources{Memory: 1 << 30, CPUs: -1, Pids: 7}, Isolation: sandbox.Isolation{User: "7:8"}}
	if !reflect.DeepEqual(m.sandboxGot.Settings, want) || m.sandboxGot.StateDir != "/s" {
		t.Errorf("got  %+v\nwant %+v", m.sandboxGot.Settings, want)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	m = &fakeMachine{}
	m.sandbox.Programs = map[string]fakeexec.Program{"go": fakeexec.Print("", "", 0)}
	if code, _, stderr := m.run(t, nil, "exec", "--host", "sandbox", "--workspace-access", "ro", "--ephemeral", "go"); code != 0 {
		t.Fatal(stderr)
	}
	if got := m.sandboxGot; got.Workspace.Dir != here || got.Workspace.Access != "ro" || !got.Ephemeral || !strings.HasPrefix(got.Name, "once-") || len(got.Name) > 32 {
		t.Errorf("%+v", got.Settings)
	}
}

// The command is what was asked for, and nothing of it stays.
func TestExecCommand(t *testing.T) {
	m := &fakeMachine{}
	var got corral.Command
	m.gateway.Programs = map[string]fakeexec.Program{"prog a --json": func(o *fakeexec.IO) int { got = o.Command; return 0 }}
	code, _, stderr := m.run(t, []string{"MINE=m"}, "exec", "--host", "gateway", "--workdir", "d", "-e", "A=1", "--env", "MINE", "--env", "B=x=y",
		"--path-prepend", "/p", "--timeout", "90", "--", "prog", "a", "--json")
	if code != 0 {
		t.Fatal(stderr)
	}
	if !slices.Equal(got.Args, []string{"prog", "a", "--json"}) || got.Shell != "" || got.Dir != "d" || got.Timeout != 90*time.Second ||
		len(got.Env) != 3 || got.Env["A"] != "1" || got.Env["MINE"] != "m" || got.Env["B"] != "x=y" || !slices.Equal(got.PathPrepend, []string{"/p"}) || got.Stdin {
		t.Errorf("%+v", got)
	}
	if _, err := m.gateway.Attach(t.Context(), got.ID); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("the process is still known: %v", err)
	}
}

func TestExecDefaultTimeout(t *testing.T) {
	m := &fakeMachine{}
	var got corral.Command
	m.gateway.Programs = map[string]fakeexec.Program{"go": func(o *fakeexec.IO) int { got = o.Command; return 0 }}
	m.run(t, nil, "exec", "go")
	if got.Timeout != 30*time.Minute {
		t.Errorf("%v", got.Timeout)
	}
	m = &fakeMachine{}
	m.gateway.Programs = map[string]fakeexec.Program{"go": func(o *fakeexec.IO) int { got = o.Command; return 0 }}
	m.run(t, []string{"CORRAL_TIMEOUT=5m"}, "exec", "go")
	if got.Timeout != 5*time.Minute {
		t.Errorf("%v", got.Timeout)
	}
}

// An executor that breaks is told from a command that fails.
func TestExecFaults(t *testing.T) {
	for _, tc := range []struct {
		op     fakeexec.Op
		err    error
		code   int
		status string
	}{
		{fakeexec.OpStart, corral.Errorf(corral.ErrUnavailable, "h", "down"), 125, `"status":"failed","reason":"unavailable"`},
		{fakeexec.OpStart, corral.Errorf(corral.ErrDenied, "h", "no"), 125, `"status":"denied"`},
		{fakeexec.OpStarted, corral.Errorf(corral.ErrLost, "h", "lost"), 125, `"status":"unknown","reason":"lost"`},
		{fakeexec.OpWait, corral.Errorf(corral.ErrLost, "h", "lost"), 125, `"status":"unknown","reason":"lost"`},
	} {
		for _, asJSON := range []bool{false, true} {
			m := &fakeMachine{}
			m.gateway.Programs = map[string]fakeexec.Program{"go": fakeexec.Print("", "", 0)}
			m.gateway.Fault = func(op fakeexec.Op, _ string) error {
				if op == tc.op {
					return tc.err
				}
				return nil
			}
			args := []string{"exec", "-q", "go"}
			if asJSON {
				args = []string{"exec", "--json", "go"}
			}
			code, stdout, stderr := m.run(t, nil, args...)
			if code != tc.code {
				t.Errorf("%s %v: code %d, want %d", tc.op, tc.err, code, tc.code)
			}
			if asJSON && (!strings.Contains(stdout, tc.status) || !strings.Contains(stdout, `"exitCode":null`) || stderr != "") {
				t.Errorf("%s %v: %s%s", tc.op, tc.err, stdout, stderr)
			}
			if !asJSON && (stderr != "corral: "+tc.err.Error()+"\nhint: h\n" || stdout != "") {
				t.Errorf("%s %v: %q, %q", tc.op, tc.err, stdout, stderr)
			}
		}
	}
}

// What cannot be cleaned up is told, and the command's result stays.
func TestExecCleanup(t *testing.T) {
	m := &fakeMachine{}
	m.gateway.Programs = map[string]fakeexec.Program{"go": fakeexec.Print("out", "", 3)}
	m.gateway.Fault = func(op fakeexec.Op, _ string) error {
		if op == fakeexec.OpRemove {
			return errors.New("disk is on fire")
		}
		return nil
	}
	code, stdout, stderr := m.run(t, nil, "exec", "--host", "gateway", "go")
	if code != 3 || stdout != "out" || stderr != "warning: The record of the command could not be removed: disk is on fire.\n" {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
}

// Output that was lost on the way to the reader is a failure, not a success.
func TestEndingWithGap(t *testing.T) {
	a := &app.App{}
	res := runner.Result{Exit: corral.Exit{Reason: corral.ReasonExited}, Excerpts: runner.Excerpts{Gap: 7}}
	if err := (commands{a}).ending(&execFlags{}, res, nil); app.ExitCode(err) != app.ExitFailure || !strings.Contains(err.Error(), "7 bytes") {
		t.Errorf("%v", err)
	}
	if err := (commands{a}).ending(&execFlags{json: true}, res, nil); err != nil {
		t.Errorf("it is in the result: %v", err)
	}
}

func TestSandboxCommands(t *testing.T) {
	m := &fakeMachine{eng: fakeEngine{rows: []daemon.SandboxRow{{Name: "a", Container: "c-a", Image: "i", Driver: "fds", User: "7:8", Running: true}, {Name: "bare"}, {Name: "stuck", Container: "c-s"}}, swept: []string{"old"}}}
	for _, tc := range []struct {
		args string
		code int
		out  string
		err  string
	}{
		{"ls", 0, "NAME   STATE         IMAGE  DRIVER  USER  CONTAINER\na      running       i      fds     7:8   c-a\nbare   no container                       \nstuck  ended                              c-s\n", ""},
		{"ls --json", 0, `[{"name":"a","container":"c-a","id":"","image":"i","driver":"fds","user":"7:8","running":true},{"name":"bare","container":"","id":"","image":"","driver":"","user":"","running":false},{"name":"stuck","container":"c-s","id":"","image":"","driver":"","user":"","running":false}]` + "\n", ""},
		{"ls -q", 0, "a\nbare\nstuck\n", ""},
		{"rm a", 0, "a\n", ""},
		{"rm a nosuch", 125, "a\n", `corral: there is no sandbox "nosuch" of the state directory /s` + "\nhint: corral sandbox ls says which there are\n"},
		{"rm --all", 125, "a\nbare\n", "corral: stuck is stuck\n"},
		{"rm --force stuck", 0, "stuck\n", ""},
		{"rm --json stuck", 125, `{"removed":[],"status":"failed","reason":"internal","error":"stuck is stuck"}` + "\n", ""},
		{"rm --all a", 2, "", "corral: corral sandbox rm wants names, or --all\nhint: see corral sandbox rm --help\n"},
		{"sweep", 0, "old\n", ""},
		{"sweep --json", 0, `{"removed":["old"]}` + "\n", ""},
	} {
		code, out, errs := m.run(t, []string{"CORRAL_STATE_DIR=/s"}, append([]string{"sandbox"}, strings.Fields(tc.args)...)...)
		if code != tc.code || out != tc.out || errs != tc.err {
			t.Errorf("sandbox %s: %d, %q, %q; want %d, %q, %q", tc.args, code, out, errs, tc.code, tc.out, tc.err)
		}
	}
	if got := strings.Join(m.eng.removed, ","); got != "a,a,a,bare,stuck" || m.eng.closed != 10 {
		t.Errorf("removed %s, closed %d times", got, m.eng.closed)
	}
}

func TestImagesList(t *testing.T) {
	m := &fakeMachine{eng: fakeEngine{images: fakeImages{list: []images.EngineImage{{
		ID: "sha256:0123456789abcdef", Size: 2_500_000, Tags: []string{images.Busybox},
		Labels: map[string]string{images.LabelImage: images.Busybox, images.LabelRecipe: "other"},
	}}}}}
	code, out, _ := m.run(t, []string{"TZ=UTC"}, "images", "ls")
	if code != 0 || !strings.Contains(out, images.Busybox+"  0123456789ab  2.4 MiB  ") || !strings.HasSuffix(out, "  stale\n") {
		t.Errorf("%d, %q", code, out)
	}
	code, out, _ = m.run(t, nil, "images", "ls", "--json")
	if code != 0 || !strings.Contains(out, `"name":"`+images.Busybox+`","id":"sha256:0123456789abcdef","tags":["`+images.Busybox+`"]`) || !strings.Contains(out, `"own":true,"stale":true`) {
		t.Errorf("%d, %q", code, out)
	}
	m.eng.images = fakeImages{}
	code, out, errs := m.run(t, nil, "images", "ls")
	if code != 0 || out != "" || !strings.Contains(errs, "corral images ensure") {
		t.Errorf("%d, %q, %q", code, out, errs)
	}
}

// Without a terminal there is a line for each phase; warnings are warnings.
func TestProgressLines(t *testing.T) {
	var errs bytes.Buffer
	a := &app.App{Stderr: &errs}
	p := a.Progress()
	for _, e := range []images.Event{
		{Phase: images.PhaseInstall, Image: "i", Message: "first"},
		{Phase: images.PhaseInstall, Image: "i", Message: "second"},
		{Phase: images.PhaseImport, Image: "i", Current: 1, Total: 2},
		{Phase: images.PhaseImport, Image: "i", Message: "third"},
		{Phase: images.PhaseImport, Image: "i", Message: "mind this", Warning: true},
	} {
		p.Show(e)
	}
	p.Finish()
	if want := "image i: first\nimage i: third\nwarning: Mind this.\n"; errs.String() != want {
		t.Errorf("%q, want %q", errs.String(), want)
	}
	errs.Reset()
	a.Quiet = true
	p = a.Progress()
	p.Show(images.Event{Phase: images.PhasePull, Message: "x", Warning: true})
	p.Show(images.Event{Phase: images.PhasePull, Message: "x"})
	if errs.Len() > 0 {
		t.Errorf("quiet, and it says %q", errs.String())
	}
}

// A reader that is gone ends the command and is no failure worth a word.
func TestBrokenPipe(t *testing.T) {
	m := &fakeMachine{}
	m.gateway.Programs = map[string]fakeexec.Program{"go": func(o *fakeexec.IO) int {
		_, _ = io.WriteString(o.Stdout, "x") // the reader is gone, not the process
		return fakeexec.Sleep(o)
	}}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	var errs bytes.Buffer
	a := &app.App{Stdin: w, Stdout: w, Stderr: &errs, Environ: []string{"CORRAL_STATE_DIR=" + t.TempDir(), "XDG_CONFIG_HOME=" + noConfig}, Backends: m.backends()}
	if code := (commands{a}).run(t.Context(), []string{"exec", "-q", "--stdin=false", "go"}); code != 141 || errs.Len() > 0 {
		t.Errorf("%d, %q", code, errs.String())
	}
}

// The engine knows the words of some flags.
func TestCompletionAsksTheEngine(t *testing.T) {
	m := &fakeMachine{eng: fakeEngine{rows: []daemon.SandboxRow{{Name: "first"}, {Name: "second"}}, facts: doctor.EngineFacts{Info: engine.Info{Runtimes: []string{"runc"}}}}}
	for args, want := range map[string]string{"exec --name": "first\nsecond\n:4\n", "sandbox rm": "first\nsecond\n:4\n", "exec --runtime": "runc\n:4\n"} {
		code, out, _ := m.run(t, []string{"CORRAL_STATE_DIR=/s"}, append(append([]string{"__complete"}, strings.Fields(args)...), "")...)
		if code != 0 || out != want {
			t.Errorf("%s: %d, %q; want %q", args, code, out, want)
		}
	}
}

// The words that describe a flag do not begin with the name of its argument in backquotes.
func TestCompletionOfFlags(t *testing.T) {
	m := &fakeMachine{}
	for word, want := range map[string]string{
		"exec --host": "--host\twhere to run (default sandbox)\n:4\n",
		"logs --tail": "--tail\tbegin so many lines before the end, or all\n:4\n",
	} {
		_, out, _ := m.run(t, []string{"CORRAL_STATE_DIR=/s"}, append([]string{"__complete"}, strings.Fields(word)...)...)
		if out != want {
			t.Errorf("%s: %q, want %q", word, out, want)
		}
	}
}

// Whatever is below says things in its own words; here they are flags.
func TestInFlags(t *testing.T) {
	for text, want := range map[string]string{
		"directories belong in pathPrepend":                            "directories belong in --path-prepend",
		"set host=node, or leave node out":                             "add --host node, or leave out --node",
		"X from the daemon's environment (runs or loads code)":         "X from the environment that corral was started with (runs or loads code)",
		"what every command needs in the daemon's own environment\nso": "what every command needs in the environment that corral is started with; so",
	} {
		if got := app.InFlags(text); got != want || app.InFlags(got) != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
