package docker

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/engine"
)

// What answers in an engine's place, such as a program between, may say nothing of a container:
// that is an error, and does not mean that there is none.
func TestInspectGarbage(t *testing.T) {
	for _, answer := range []string{`{}`, `null`, `{"Id":"box"}`, `{"Id":"box","State":{}}`, `{"Id":"box","Config":{}}`, `{"Id":`, `[]`, ``} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Api-Version", "1.41")
			if strings.HasSuffix(r.URL.Path, "/json") {
				fmt.Fprint(w, answer)
			} else if r.Method != http.MethodHead {
				w.WriteHeader(http.StatusConflict)
			}
		}))
		e, err := New(Options{Host: "tcp://" + server.Listener.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		_, ierr := e.Inspect(t.Context(), "box")
		_, serr := e.Stats(t.Context(), "box")
		_, xerr := e.Exec(t.Context(), "box", engine.ExecSpec{Args: []string{"true"}})
		for what, err := range map[string]error{"inspect": ierr, "stats": serr, "exec": xerr, "pause": e.Pause(t.Context(), "box")} {
			if !errors.Is(err, corral.ErrUnavailable) || errors.Is(err, engine.ErrNoContainer) {
				t.Errorf("%q: %s: %v", answer, what, err)
			}
		}
		e.Close()
		server.Close()
	}
}
