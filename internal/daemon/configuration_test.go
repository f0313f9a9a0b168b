package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/sandbox"
)

func TestConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "corral.json5")
	if err := os.WriteFile(file, []byte("{ // mine\n  agents: {list: [{id: \"a\"}]},\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	live, err := config.Open(file, true)
	if err != nil {
		t.Fatal(err)
	}
	limit := 90 * time.Second
	o := &GatewayOptions{Options: Options{Settings: Settings{Mode: ModeRequired, Image: "debian", Resources: sandbox.Resources{Memory: -1, CPUs: 0.5}, Isolation: sandbox.Isolation{User: "1:1"}}, Given: func(flag string) bool { return flag != "user" && flag != "workspace" }}, Timeout: &limit, Nodes: ":7422"}
	k := configuration{live, o.configFlags()}
	shown, err := k.Show("a", nil)
	if err != nil || shown.File != file || len(shown.Agents) != 1 || shown.Version == "" {
		t.Errorf("%+v", shown)
	}
	flags := map[string]string{}
	for _, f := range shown.Flags {
		flags[f.Key] = f.Flag + " " + string(f.Value)
		if _, err := k.Show("", []string{f.Key}); err != nil {
			t.Errorf("%s is no key: %v", f.Key, err)
		}
	}
	for key, want := range map[string]string{
		"sandbox.mode": `--sandbox "all"`, "sandbox.required": "--sandbox true", "sandbox.image": `--image "debian"`, "sandbox.memory": `--memory "unlimited"`,
		"sandbox.cpus": "--cpus 0.5", "sandbox.user": "", "workspace": "", "tools.exec.timeout": "--timeout 90", "nodes.listen": `--nodes ":7422"`, "gateway.listen": "",
	} {
		if flags[key] != want {
			t.Errorf("%s is given by %q, want %q", key, flags[key], want)
		}
	}
	if _, err := k.Show("", []string{"agent"}); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("of a key that there is not: %v", err)
	}
	value := "builder"
	change := api.ConfigChange{Key: "agents.list[0].tools.exec.node", Value: &value, Version: shown.Version}
	changed, err := k.Change(change)
	if err != nil || string(changed.Value.Value) != `"builder"` || changed.Version == shown.Version || changed.Source.Line != 2 || len(changed.Remarks) != 0 {
		t.Errorf("%+v, %v", changed, err)
	}
	if _, err := k.Change(change); !errors.Is(err, corral.ErrConflict) {
		t.Errorf("of an old version: %v", err)
	}
	if changed, err = k.Change(api.ConfigChange{Key: change.Key}); err != nil || string(changed.Value.Value) != "null" {
		t.Errorf("%+v, %v", changed, err)
	}
	value = "127.0.0.1:7000"
	if changed, err = k.Change(api.ConfigChange{Key: "gateway.listen", Value: &value}); err != nil || len(changed.Remarks) != 1 {
		t.Errorf("%+v, %v", changed, err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "// mine") {
		t.Errorf("%s, %v", text, err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if shown, err = k.Show("", []string{"agents", "tools.exec.node"}); err != nil || shown.Error == "" || len(shown.Values) != 2 {
		t.Errorf("%+v", shown)
	}
}
