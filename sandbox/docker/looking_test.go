package docker

import (
	"context"
	"testing"
	"time"
)

// Who waits for another's look at the container that this program is in ends with
// its own context.
func TestNobodyWaitsForAnothersLook(t *testing.T) {
	e, err := New(Options{Host: "unix:///nonexistent/docker.sock"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.looking.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	over := make(chan error, 1)
	go func() { _, _, err := e.nested(ctx); over <- err }()
	select {
	case err := <-over:
		if err == nil {
			t.Error("it has looked")
		}
	case <-time.After(5 * time.Second):
		t.Error("it waits")
	}
	e.looking.Release()
}
