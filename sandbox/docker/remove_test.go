package docker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
)

// A container that runs is removed after the engine has taken note of its end,
// which can be long after it was killed.
func TestRemoveWaitsForTheEnd(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	looks := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Api-Version", "1.41")
		what := r.Method + " " + path.Base(r.URL.Path)
		if what != "HEAD _ping" {
			calls = append(calls, what)
		}
		switch {
		case strings.HasSuffix(what, "ping"):
		case what == "GET json":
			looks++
			fmt.Fprintf(w, `{"Id":"box","State":{"Running":%t},"Config":{}}`, looks < 4)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer server.Close()
	e, err := New(Options{Host: "tcp://" + server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Remove(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(calls, ", "), "GET json, POST kill, GET json, GET json, GET json, DELETE box"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// One that does not run, or is gone, needs no kill.
func TestRemoveWhatDoesNotRun(t *testing.T) {
	for kill, remove := range map[int]int{http.StatusConflict: http.StatusNoContent, http.StatusNotFound: http.StatusNotFound} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/kill"):
				w.WriteHeader(kill)
			case r.Method == http.MethodDelete:
				w.WriteHeader(remove)
			}
		}))
		e, err := New(Options{Host: "tcp://" + server.Listener.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Remove(t.Context(), "box"); err != nil {
			t.Errorf("%d: %v", kill, err)
		}
		e.Close()
		server.Close()
	}
}

// Podman fails to describe a container whose process is about to be gone.
func TestInspectWhileItEnds(t *testing.T) {
	looks := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		if !strings.HasSuffix(r.URL.Path, "/json") {
			return
		}
		if looks++; looks < 4 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"message":"read /proc/4975/cgroup: no such process"}`)
			return
		}
		fmt.Fprint(w, `{"Id":"box","State":{"Running":false,"ExitCode":3},"Config":{}}`)
	}))
	defer server.Close()
	e, err := New(Options{Host: "tcp://" + server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if c, err := e.Inspect(t.Context(), "box"); err != nil || c.Exit != 3 || c.Running {
		t.Errorf("%+v, %v, after %d looks", c, err, looks)
	}
}
