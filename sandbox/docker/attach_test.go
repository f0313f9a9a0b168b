package docker

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

// An engine that takes a connection to a container's streams and does not answer keeps
// no caller waiting.
func TestAttachEngineHangs(t *testing.T) {
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		if strings.HasSuffix(r.URL.Path, "/attach") {
			<-end
		}
	}))
	defer server.Close()
	defer close(end)
	e, err := New(Options{Host: "tcp://" + server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		streams, err := e.Attach(ctx, "box")
		if err == nil {
			streams.Close()
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, corral.ErrUnavailable) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for the engine")
	}
}
