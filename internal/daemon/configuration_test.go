package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
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
	k := configuration{live}
	shown, err := k.Show("a", nil)
	if err != nil || shown.File != file || len(shown.Agents) != 1 || shown.Version == "" {
		t.Errorf("%+v", shown)
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
