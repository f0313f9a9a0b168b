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

func (emptyEngine) Close() error { return nil }

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

// renamingEngine has one container, which was renamed.
type renamingEngine struct{ emptyEngine }

func (renamingEngine) List(context.Context, map[string]string) ([]engine.Container, error) {
	return []engine.Container{{ID: "id-1", Name: "renamed", Running: true, Paused: true}}, nil
}

func (renamingEngine) Info(context.Context) (engine.Info, error) {
	return engine.Info{Name: "docker", ID: "one"}, nil
}

// The containers of a sandbox are listed by whatever name they have, and those that another
// engine has with that engine.
func TestSandboxesOfTwoEngines(t *testing.T) {
	dir := testdir.New(t)
	for name, text := range map[string]string{
		"sandboxes/main/sandbox.json": `{"version": 1, "name": "main", "created": "2026-01-02T03:04:05Z", "boxes": ["main-1", "main-2", "main-3"]}`,
		"boxes/main-1/box.json":       `{"version": 1, "id": "main-1", "container": "corral-main-1", "containerID": "id-1", "engine": "docker", "engineID": "one", "user": "7:7"}`,
		"boxes/main-2/box.json":       `{"version": 1, "id": "main-2", "container": "corral-main-2", "containerID": "id-2", "engine": "docker", "engineID": "two", "engineAddress": "unix:///two.sock"}`,
		"boxes/main-3/box.json":       `{"version": 1, "id": "main-3", "container": "corral-main-3", "engine": "docker", "engineID": "one"}`,
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := hostEngine{renamingEngine{}}.Sandboxes(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []SandboxRow{
		{Name: "main", Container: "corral-main-2", ID: "id-2", Engine: "docker unix:///two.sock"},
		{Name: "main", Container: "renamed", ID: "id-1", User: "7:7", Running: true, Paused: true},
	} {
		if len(rows) != 2 || rows[i] != want {
			t.Fatalf("%+v, want %+v", rows, want)
		}
	}
	if rows[0].State() != "at docker unix:///two.sock" || rows[1].State() != "paused" {
		t.Errorf("%s, %s", rows[0].State(), rows[1].State())
	}
	k := LocalSandboxes(dir, Backends{Engine: func(context.Context, string) (Engine, error) { return hostEngine{renamingEngine{}}, nil }}, func() string { return "" }, nil)
	got, err := k.Get(t.Context(), "main")
	if err != nil || len(got.Containers) != 3 || !got.Containers[0].Running || got.Containers[1].Running || got.Containers[2].Running {
		t.Errorf("%+v, %v", got.Containers, err)
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
