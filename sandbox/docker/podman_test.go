package docker

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
)

// fakePodman answers as Podman does, and notes what it is asked.
func fakePodman(t *testing.T, rootless bool, headers map[string]string) (e *Engine, asked func() []string) {
	t.Helper()
	socket := filepath.Join(testdir.New(t), "p.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var paths []string
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		paths = append(paths, filepath.Base(r.URL.Path))
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		switch filepath.Base(r.URL.Path) {
		case "version":
			fmt.Fprint(w, `{"ApiVersion":"1.41","Version":"4.3.1","Components":[{"Name":"Podman Engine","Version":"4.3.1"}]}`)
		case "info":
			fmt.Fprintf(w, `{"ServerVersion":"4.3.1","Architecture":"amd64","NCPU":2,"SecurityOptions":["name=seccomp,profile=default"],"Rootless":%v}`, rootless)
		}
	})}
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	e, err = New(Options{Host: "unix://" + socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return e, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(paths)
	}
}

// Podman says in a field of its own whether it is its user's, and is not asked all
// of it again and again.
func TestPodmanInfo(t *testing.T) {
	for _, rootless := range []bool{false, true} {
		e, asked := fakePodman(t, rootless, nil)
		for range 3 {
			info, err := e.Info(t.Context())
			if err != nil || info.Name != podman || info.Rootless != rootless || !info.Local || info.CPUs != 2 || info.Arch != "amd64" {
				t.Errorf("%+v, %v", info, err)
			}
		}
		infos := 0
		for _, path := range asked() {
			if path == "info" {
				infos++
			}
		}
		if infos != 1 {
			t.Errorf("it was asked for %v", asked())
		}
		if last := asked()[len(asked())-1]; last != "_ping" {
			t.Errorf("in the end it was asked for %q", last)
		}
	}
}

// Which engine answers is in the answer to the first question, whatever that is. One
// between that leaves it out has the engine asked for its version.
func TestKindByHeaders(t *testing.T) {
	for _, tt := range []struct {
		headers map[string]string
		name    string
		asked   []string // first of all
	}{
		{map[string]string{"Server": "Docker/20.10.24 (linux)"}, "docker", []string{"_ping", "info"}},
		{map[string]string{"Libpod-Api-Version": "4.3.1", "Server": "Libpod/4.3.1 (linux)"}, podman, []string{"_ping", "info"}},
		{map[string]string{"Server": "nginx"}, podman, []string{"_ping", "_ping", "version", "info"}},
	} {
		e, asked := fakePodman(t, false, tt.headers)
		if err := e.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		if name, local, err := e.Near(t.Context()); err != nil || name != tt.name {
			t.Errorf("%v: near %s, %t, %v", tt.headers, name, local, err)
		}
		info, err := e.Info(t.Context())
		if err != nil || info.Name != tt.name || !slices.Equal(asked()[:min(len(asked()), len(tt.asked))], tt.asked) {
			t.Errorf("%v: %s, %v, after %v", tt.headers, info.Name, err, asked())
		}
	}
}

// An engine on another machine is not near, whatever it is.
func TestNear(t *testing.T) {
	e, _ := fakePodman(t, false, nil)
	_, local, err := e.Near(t.Context())
	info, ierr := e.Info(t.Context())
	if err != nil || ierr != nil || local != info.Local {
		t.Errorf("near %t, by all that it says %t; %v, %v", local, info.Local, err, ierr)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server", "Docker/20.10.24 (linux)")
		w.Header().Set("Api-Version", "1.41")
	}))
	defer server.Close()
	far, err := New(Options{Host: "tcp://" + server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if name, local, err := far.Near(t.Context()); err != nil || name != "docker" || local {
		t.Errorf("near %s, %t, %v", name, local, err)
	}
}
