package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/sandbox/engine"
)

// What corral init writes is strict, whether or not there is an engine.
func TestFirstConfig(t *testing.T) {
	for _, mode := range []string{daemon.ModeOff, daemon.ModeAll} {
		c, err := config.Parse("corral.json5", []byte(config.First(mode)))
		if err != nil {
			t.Fatal(err)
		}
		a := c.Agent("main")
		e := a.Tools.Exec
		if string(a.Sandbox.Mode.Value) != mode || !a.Sandbox.Required.Value || e.Security.Value != policy.SecurityAllowlist || e.Ask.Value != policy.AskOnMiss || e.AskFallback.Value != policy.SecurityDeny {
			t.Errorf("%s: %+v", mode, a)
		}
		if err := a.Tools.Elevated.Check(config.Sender{ID: "x"}); err == nil {
			t.Errorf("%s: elevated is allowed", mode)
		}
		// What is in comments is right as well.
		open := strings.NewReplacer("// {", "{", "// memory:", "memory:", "// defaults:", "defaults:").Replace(config.First(mode))
		c, err = config.Parse("corral.json5", []byte(open))
		if err != nil || len(c.Agent("nightly").Tools.Exec.Rules) != 3 {
			t.Errorf("%v\n%s", err, open)
		}
	}
}

// An engine that answers turns the sandbox on.
func TestInitWithAnEngine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.json5")
	m := &fakeMachine{eng: fakeEngine{facts: doctor.EngineFacts{Info: engine.Info{Name: "docker", Version: "28.1", Address: "unix:///x.sock"}}}}
	code, stdout, stderr := m.run(t, nil, "init", "--json", "--config", file)
	var r initResult
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || stderr != "" {
		t.Fatalf("%d %s %s: %v", code, stdout, stderr, err)
	}
	want := initResult{File: file, Sandbox: "all", Why: "docker 28.1 answers at unix:///x.sock", Next: "corral exec --host sandbox 'echo hello', or corral gateway"}
	if r != want || m.eng.closed != 1 {
		t.Errorf("%+v; closed %d times", r, m.eng.closed)
	}
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), `mode: "all"`) {
		t.Errorf("%s, %v", data, err)
	}
}

// The schema says which image there is without one.
func TestSchemaNamesTheDefaultImage(t *testing.T) {
	if !strings.Contains(string(config.Schema()), "Without one: "+images.Default+".") {
		t.Errorf("the schema does not name %s", images.Default)
	}
}

// A key of the configuration is not told in the words of flags.
func TestConfigMistakesAreNotReworded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.json5")
	if err := os.WriteFile(file, []byte(`{ tools: { exec: { pathPrepend: ["~x"] } } }`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"config", "get", "--config", file}, {"config", "get", "--config", file, "--json"}} {
		_, stdout, stderr := (&fakeMachine{}).run(t, nil, args...)
		if out := stdout + stderr; strings.Contains(out, "--path-prepend") || !strings.Contains(out, "tools.exec.pathPrepend[0]: cannot expand") {
			t.Errorf("%v: %s", args, out)
		}
	}
}

// A mistake about a sandbox hides what it is refused, which is said.
func TestMistakesOfSandboxesPointToMore(t *testing.T) {
	for text, want := range map[string]bool{
		`{sandbox: {user: "0:0"}}`: true, `{agents: {list: [{id: "a", sandbox: {pids: 0}}]}}`: true, `{tools: {nosuch: 1}}`: false, `{`: false,
	} {
		file := filepath.Join(t.TempDir(), "c.json5")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := (&fakeMachine{}).run(t, nil, "exec", "--config", file, "--host", "sandbox", "true")
		if got := strings.Contains(stderr, "\nhint: corral sandbox explain shows what else a sandbox is refused\n"); got != want || code != 2 {
			t.Errorf("%s: %d, %s", text, code, stderr)
		}
	}
}
