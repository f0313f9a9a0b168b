package config

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

// A named pipe in the place of the file closes at once, and nobody waits for who writes.
func TestNamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "corral.json5")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	said := make(chan error, 1)
	go func() {
		_, err := Load(path)
		said <- err
	}()
	select {
	case err := <-said:
		if !errors.Is(err, corral.ErrInvalid) {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it waits")
	}
}
