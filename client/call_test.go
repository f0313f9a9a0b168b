package client_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
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

// What cannot be sent was not sent: it is no ErrLost.
func TestControlCharacters(t *testing.T) {
	if c, err := client.New(client.Options{URL: "http://127.0.0.1:1", Token: "token\n"}); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("a token with the end of its line: %v, %v", c, err)
	}
	c := to(t, client.Options{URL: "http://127.0.0.1:1"})
	if _, err := c.CallTool(t.Context(), "exec", "gpt\n", json.RawMessage("{}")); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("a model with an end of line: %v", err)
	}
}

// A start whose time was up while there was no connection so far is not lost: nothing was
// sent.
func TestNoConnectionInTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it never says anything
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	p, err := to(t, client.Options{URL: "https://" + l.Addr().String()}).Start(ctx, corral.Command{Shell: "x"})
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, corral.ErrLost) {
		t.Errorf("%v, %v", p, err)
	}
}

// A name that would lead to another path is nobody's: the list of sandboxes is no sandbox.
func TestNamesThatLeadElsewhere(t *testing.T) {
	gw := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("asked for %s", r.URL)
		_, _ = io.WriteString(w, "{}")
	}))
	defer gw.Close()
	c := to(t, client.Options{URL: gw.URL})
	for _, name := range []string{"", ".", ".."} {
		if box, err := c.Sandbox(t.Context(), name); !errors.Is(err, corral.ErrNotFound) {
			t.Errorf("%q: %+v, %v", name, box, err)
		}
		if err := c.RemoveSandbox(t.Context(), name); !errors.Is(err, corral.ErrNotFound) {
			t.Errorf("removing %q: %v", name, err)
		}
	}
}

// A sandbox is removed once: one of that name may have been made since.
func TestRemoveSandboxCut(t *testing.T) {
	var removed atomic.Int32
	gw := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if removed.Add(1) == 1 {
			panic(http.ErrAbortHandler) // when it has been removed
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer gw.Close()
	if err := to(t, client.Options{URL: gw.URL}).RemoveSandbox(t.Context(), "box"); !errors.Is(err, corral.ErrLost) || removed.Load() != 1 {
		t.Errorf("removed %d times: %v", removed.Load(), err)
	}
}

// What may have been done by a try whose answer was cut: a session that has ended since was
// ended by it, and a sandbox is not frozen again.
func TestRepeated(t *testing.T) {
	var mu sync.Mutex
	tries := map[string]int{}
	gw := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"sessionId": "it", "status": "completed"}`)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if tries[r.URL.Path]++; tries[r.URL.Path] == 1 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error": {"code": "ended", "message": "session it has ended"}}`)
	}))
	defer gw.Close()
	c := to(t, client.Options{URL: gw.URL})
	found, err := c.Attach(t.Context(), "it")
	if err != nil {
		t.Fatal(err)
	}
	p := found.(*client.Process)
	if st, err := p.Kill(t.Context()); err != nil || st.ID != "it" {
		t.Errorf("Kill: %+v, %v", st, err)
	}
	if _, err := p.Kill(t.Context()); !errors.Is(err, corral.ErrEnded) {
		t.Errorf("Kill again: %v", err)
	}
	if err := c.PauseSandbox(t.Context(), "box"); !errors.Is(err, corral.ErrLost) || !strings.Contains(err.Error(), "pause of sandbox box") {
		t.Errorf("PauseSandbox: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if n := tries["/v1/sandboxes/box/pause"]; n != 1 {
		t.Errorf("%d pauses", n)
	}
}

// What answers at once that nothing has happened, where a gateway would wait, is not asked
// again and again without a pause.
func TestHastyServer(t *testing.T) {
	for what, call := range map[string]func(context.Context, *client.Client) error{
		"Wait": func(ctx context.Context, c *client.Client) error {
			p, err := c.Attach(ctx, "it")
			if err == nil {
				_, err = p.Wait(ctx)
			}
			return err
		},
		"Events": func(ctx context.Context, c *client.Client) error {
			for e, err := range c.Events(ctx, client.EventOptions{}) {
				return cmp.Or(err, fmt.Errorf("the event %+v", e))
			}
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			var asked atomic.Int32
			hasty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1); r.URL.Path != "/v1/events" {
					_, _ = io.WriteString(w, `{"sessionId": "it", "status": "running"}`)
				}
			}))
			defer hasty.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if err := call(ctx, to(t, client.Options{URL: hasty.URL})); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it ended: %v", err)
			}
			if n := asked.Load(); n > 30 {
				t.Errorf("it was asked %d times in 2 s", n)
			}
		})
	}
}

// Output that was read already does not come a second time.
func TestOutputAgain(t *testing.T) {
	again := make([]byte, api.HeaderLen, api.HeaderLen+3)
	api.Header{Stream: corral.Stdout, Length: 3}.Put(again)
	again = append(again, "abc"...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/sessions/it":
			_, _ = io.WriteString(w, `{"sessionId": "it", "status": "running"}`)
		case "/v1/sessions/it/log":
			for range 10 {
				_, _ = w.Write(again)
			}
		default:
			conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.AttachProtocol}})
			for range 10 {
				if err == nil {
					err = conn.Write(r.Context(), websocket.MessageBinary, again)
				}
			}
			if err == nil {
				_, _, _ = conn.Read(r.Context()) // until the client is gone
			}
		}
	}))
	defer server.Close()
	p, err := to(t, client.Options{URL: server.URL}).Session(t.Context(), "it")
	if err != nil {
		t.Fatal(err)
	}
	for off := int64(0); ; {
		c, err := p.Log().Read(t.Context(), off, make([]byte, 8))
		if off == 3 && errors.Is(err, api.ErrFrame) {
			break
		}
		if err != nil || off != 0 || c.Offset != 0 || string(c.Data) != "abc" {
			t.Fatalf("the log at %d: %+v, %v", off, c, err)
		}
		off = c.Next()
	}
	terminal, err := p.Attach(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if m, err := terminal.Next(t.Context()); err != nil || string(m.Chunk.Data) != "abc" {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := terminal.Next(t.Context()); !errors.Is(err, api.ErrFrame) {
		t.Errorf("again: %+v, %v", m, err)
	}
}
