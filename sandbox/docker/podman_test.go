package docker

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
)

// fakePodman answers as Podman does, and notes what it is asked.
func fakePodman(t *testing.T, rootless bool) (e *Engine, asked func() []string) {
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
		e, asked := fakePodman(t, rootless)
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
