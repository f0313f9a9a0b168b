package daemon_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
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

// Serve returns no error when Close ends it. Close can be called again.
func TestCloseEndsServe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "corral.json5")
	if err := os.WriteFile(file, []byte(`{ gateway: { listen: "127.0.0.1:0" } }`), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := daemon.Open(t.Context(), daemon.Options{Config: file, StateDir: filepath.Join(dir, "state"), Serve: true})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(t.Context()) }()
	c, err := client.New(client.Options{Socket: filepath.Join(dir, "state", api.SocketFile)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ready(t.Context()); err != nil { // it serves
		t.Fatal(err)
	}
	for range 2 {
		if err := g.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if err := g.Serve(t.Context()); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "closed") {
		t.Errorf("Serve of one that is closed: %v", err)
	}
}

// An Open that finds the directory in use by a gateway of the same program leaves alone
// what tells other commands about that one.
func TestOpenTwice(t *testing.T) {
	dir := t.TempDir()
	file, state := filepath.Join(dir, "corral.json5"), filepath.Join(dir, "state")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := daemon.Open(t.Context(), daemon.Options{Config: file, StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	for _, serve := range []bool{false, true} {
		if _, err := daemon.Open(t.Context(), daemon.Options{Config: file, StateDir: state, Serve: serve}); !errors.Is(err, corral.ErrConflict) {
			t.Errorf("a second one: %v", err)
		}
		if _, err := os.Stat(filepath.Join(state, "gateway.json")); err != nil {
			t.Errorf("the first one, after that: %v", err)
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(state, "gateway.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after its end: %v", err)
	}
}
