package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
)

// to is a client of what listens at a URL.
func to(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A redirect is not followed: a start or a removal would become a GET, whose answer says
// nothing of it, and the token would go elsewhere.
func TestRedirect(t *testing.T) {
	gw := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("followed: %s %s", r.Method, r.URL)
		_, _ = io.WriteString(w, `{"sessions": []}`)
	}))
	defer gw.Close()
	var sent []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sent = append(sent, r.Method); r.URL.Path == "/v1/sessions/it" && r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"sessionId": "it", "status": "running"}`)
			return
		}
		http.Redirect(w, r, gw.URL+r.URL.Path, http.StatusMovedPermanently)
	}))
	defer proxy.Close()
	c := to(t, client.Options{URL: proxy.URL})
	if p, err := c.Begin(t.Context(), corral.Command{Shell: "x"}, false); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("Begin: %+v, %v", p, err)
	}
	p, err := c.Attach(t.Context(), "it")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(t.Context()); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("Remove: %v", err)
	}
	if len(sent) != 3 {
		t.Errorf("sent: %q", sent)
	}
}
