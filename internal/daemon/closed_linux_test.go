package daemon

import (
	"encoding/json"
	"strings"
	"testing"
)

// While the configuration cannot be read, tools that run or change something say so, and what to do about it.
func TestClosedTools(t *testing.T) {
	g := serveWith(t, toolSettings)
	g.configure("{")
	for name, args := range map[string]map[string]any{
		"exec":              {"command": "true"},
		"run_shell_command": {"command": "echo", "is_background": false},
		"apply_patch":       {"input": "*** Begin Patch\n*** Add File: x\n+x\n*** End Patch"},
	} {
		result, _, failed := g.call("main", "", name, args)
		said, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(said); !failed || !strings.Contains(text, "the configuration cannot be used") || !strings.Contains(text, "corral config validate") || strings.Contains(text, "tools.") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
