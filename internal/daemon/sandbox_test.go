package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/engines"
)

// emptyEngine has no container.
type emptyEngine struct{ engines.Engine }

func (emptyEngine) List(context.Context, map[string]string) ([]engine.Container, error) {
	return nil, nil
}

// A sandbox whose container could not be made has a workspace to remove. A sandbox that
// was removed has only records.
func TestSandboxesWithoutContainers(t *testing.T) {
	dir := testdir.New(t)
	for name, text := range map[string]string{
		"sandboxes/failed/sandbox.json":  `{"version": 1, "name": "failed", "created": "2026-01-02T03:04:05Z", "workspace": "failed-a", "boxes": []}`,
		"sandboxes/removed/sandbox.json": `{"version": 1, "name": "removed", "created": "2026-01-02T03:04:05Z", "boxes": []}`,
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := hostEngine{emptyEngine{}}.Sandboxes(t.Context(), dir)
	if err != nil || len(rows) != 1 || rows[0] != (SandboxRow{Name: "failed"}) {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestScopeOf(t *testing.T) {
	for _, tc := range []struct{ owner, key, scope, session string }{
		{"", "", "", ""},
		{"main", "", "", ""},
		{"main", "agent:main", "agent", ""},
		{"main", "agent:main:main", "session", "main"},
		{"main", "agent:main:a:b", "session", "a:b"},
		{"", "shared", "shared", ""},
	} {
		if scope, session := scopeOf(tc.owner, tc.key); scope != tc.scope || session != tc.session {
			t.Errorf("%q %q: %q %q", tc.owner, tc.key, scope, session)
		}
	}
}
