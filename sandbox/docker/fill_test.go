package docker

import (
	"archive/tar"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
)

// filling is an engine with one volume, which a container can have.
type filling struct {
	mu        sync.Mutex
	container bool // is there
	volume    bool
	size      int // of the file in the volume; -1: there is none
	copies    int
}

func (f *filling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Api-Version", "1.41")
	w.Header().Set("Content-Type", "application/json")
	status := func(code int) { w.WriteHeader(code); fmt.Fprint(w, `{"message":"as the test has it"}`) }
	what := r.Method + " " + path.Base(r.URL.Path)
	switch {
	case strings.Contains(r.URL.Path, "/volumes/"):
		switch {
		case r.Method == http.MethodPost:
			f.volume = true
			fmt.Fprint(w, `{"Name":"v"}`)
		case !f.volume:
			status(http.StatusNotFound)
		default:
			fmt.Fprint(w, `{"Name":"v"}`)
		}
	case what == "POST create" && f.container:
		status(http.StatusConflict)
	case what == "POST create":
		f.container, f.volume = true, true
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"Id":"x"}`)
	case !f.container && strings.Contains(r.URL.Path, "/containers/"):
		status(http.StatusNotFound)
	case what == "HEAD archive" && f.size < 0:
		w.WriteHeader(http.StatusNotFound)
	case what == "HEAD archive":
		w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"name":"f","size":%d}`, f.size)))
	case what == "PUT archive":
		f.copies++
		tr := tar.NewReader(r.Body)
		if _, err := tr.Next(); err == nil {
			data, _ := io.ReadAll(tr)
			f.size = len(data)
		}
	case what == "POST kill":
		status(http.StatusConflict)
	case r.Method == http.MethodDelete:
		f.container = false
		w.WriteHeader(http.StatusNoContent)
	}
}

// A volume that a program was killed over is filled by the next, with the container that
// is left; one that is full is left as it is. No container stays.
func TestFillAfterKill(t *testing.T) {
	for what, f := range map[string]*filling{
		"nothing is there": {size: -1},
		"the volume":       {volume: true, size: -1},
		"half the file":    {volume: true, size: 3},
		"the container":    {volume: true, container: true, size: -1},
		"all":              {volume: true, size: 7},
	} {
		t.Run(what, func(t *testing.T) {
			full := f.size == 7
			server := httptest.NewServer(f)
			defer server.Close()
			e, err := New(Options{Host: "tcp://" + server.Listener.Addr().String()})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			for range 2 {
				if err := e.Fill(t.Context(), "v", "image", "f", []byte("content")); err != nil {
					t.Fatal(err)
				}
				f.mu.Lock()
				if f.size != 7 || f.container || f.copies > 1 || full && f.copies > 0 {
					t.Errorf("%d bytes after %d copies, container %t", f.size, f.copies, f.container)
				}
				f.mu.Unlock()
			}
			f.mu.Lock()
			f.volume, f.size = false, -1 // a person has removed it
			f.mu.Unlock()
			if err := e.Fill(t.Context(), "v", "image", "f", []byte("content")); err != nil {
				t.Error(err)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.size != 7 {
				t.Errorf("what was removed has %d bytes", f.size)
			}
		})
	}
}
