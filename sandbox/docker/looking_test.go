package docker

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
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

// Nor for another's question to an engine that hangs.
func TestNobodyWaitsForAnothersQuestion(t *testing.T) {
	asked, over := make(chan struct{}, 8), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-over }))
	defer server.Close()
	defer close(over)
	e, err := New(Options{Host: strings.Replace(server.URL, "http", "tcp", 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	first, giveUp := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() { _, _, err := e.Near(first); answered <- err }()
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	time.AfterFunc(5*time.Second, giveUp)
	if _, _, err := e.Near(ctx); err == nil || time.Since(start) > 2*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	giveUp()
	<-answered
}
