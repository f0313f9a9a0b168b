//go:build e2e && linux

package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/sandbox/engines"
)

// In a sandbox the tools work on its workspace: what one makes the others see,
// and this machine does not.
func TestToolsInSandbox(t *testing.T) {
	enginetest.New(t)
	state := ""
	t.Cleanup(func() { // after the gateway has ended
		ctx := context.WithoutCancel(t.Context())
		eng, err := OpenEngine(ctx, engines.Docker)
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close()
		if err := eng.RemoveSandbox(ctx, state, "main", false); err != nil {
			t.Error(err)
		}
	})
	g := serveWith(t, `{ agents: { list: [{ id: "main", sandbox: { mode: "all", image: "`+images.Busybox+`" },
		tools: { runShellCommand: { enabled: true }, exec: { applyPatch: { enabled: true } } } }] } }`)
	state = g.s.dir
	r, text, failed := g.call("main", "gpt-5.2", "apply_patch", map[string]any{"input": "*** Begin Patch\n*** Add File: /workspace/sub/new.txt\n+made\n*** End Patch"})
	if failed || !strings.Contains(text, "A sub/new.txt") {
		t.Fatalf("%v", r)
	}
	r, _, _ = g.call("main", "", "exec", map[string]any{"command": "cat sub/new.txt; pwd"})
	if r["stdout"] != "made\n/workspace\n" || r["sandboxed"] != true {
		t.Errorf("%v", r)
	}
	// What commands may not change, a patch may not either.
	if found, err := filepath.Glob(filepath.Join(state, "workspaces", "*", "sub", "new.txt")); err != nil || len(found) != 1 {
		t.Errorf("%q, %v", found, err)
	} else if err := os.Lchown(found[0], 0, 0); err != nil {
		t.Error(err)
	}
	r, text, failed = g.call("main", "gpt-5.2", "apply_patch", map[string]any{"input": "*** Begin Patch\n*** Update File: sub/new.txt\n@@\n-made\n+more\n*** End Patch"})
	if !failed || !strings.Contains(text, "it belongs to user 0") {
		t.Errorf("%v", r)
	}
	// It runs there and nowhere else: the image has no bash.
	r, _, failed = g.call("main", "", "run_shell_command", map[string]any{"command": "pwd", "directory": "sub", "is_background": false})
	if text := fmt.Sprint(r["error"]); !failed || !strings.Contains(text, "bash could not be started") {
		t.Errorf("%v", r)
	}
	report, err := hostPolicy{hosts: g.s.hosts}.Explain(t.Context(), "main", corral.Command{Shell: "rm -rf /"}, gateway.ExplainOptions{Environment: true})
	if err != nil || report.Outcome != "allow" || report.Guarded || report.Cwd != "/workspace" || report.Environment != nil {
		t.Errorf("%+v, %v", report, err)
	}
}
