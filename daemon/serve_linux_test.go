package daemon_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/daemon"
)

// A gateway that was not opened to serve says so, and can still be used.
func TestServeAlone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "corral.json5")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := daemon.Open(t.Context(), daemon.Options{Config: file, StateDir: filepath.Join(dir, "state")})
	if err != nil {
		t.Fatal(err)
	}
	err = g.Serve(t.Context())
	if !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), "listens nowhere") || corral.Hint(err) == "" {
		t.Errorf("it serves: %v", err)
	}
	if _, err := g.Agent("main").Attach(t.Context(), "none"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("it cannot be used after that: %v", err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// A configuration that is named has to be there.
func TestNoConfig(t *testing.T) {
	_, err := daemon.Open(t.Context(), daemon.Options{Config: filepath.Join(t.TempDir(), "none.json5"), StateDir: t.TempDir()})
	if !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), "none.json5") {
		t.Errorf("it opens: %v", err)
	}
}
