package client_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
)

func TestOptions(t *testing.T) {
	for _, o := range []client.Options{
		{}, {Socket: "s", URL: "http://x"}, {URL: "x"}, {URL: "ftp://x"}, {URL: "http://"}, {URL: "http://x", Fingerprint: "00"}, {Socket: "s", Agent: "not a name"},
	} {
		if c, err := client.New(o); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%+v: %v, %v", o, c, err)
		}
	}
	// No error has what may be secret, and a fingerprint that is none is no reason to
	// trust any certificate.
	for _, o := range []client.Options{
		{URL: "ftp://u:secret@x"}, {URL: "http://u:secret@"}, {URL: "https//u:secret@x:y"}, {URL: "https://u:secr%zzet@x"}, {URL: "http://u:se#secret@x"}, {URL: "http://x?token=secret@x"}, {URL: "http://x/#secret"},
		{URL: "http://u:secret@x", Fingerprint: "00"}, {URL: "https://x", Fingerprint: ":"}, {URL: "https://x", Fingerprint: "00:11"},
	} {
		if c, err := client.New(o); !errors.Is(err, corral.ErrInvalid) || strings.Contains(err.Error(), "secr") {
			t.Errorf("%+v: %v, %v", o, c, err)
		}
	}
}

func TestSessions(t *testing.T) {
	g := newRig(t)
	c, other := g.client(nil), g.client(func(o *client.Options) { o.Agent = "other" })
	p, q := start(t, c, corral.Command{Shell: "sleep", ID: "mine"}), start(t, other, corral.Command{Shell: "sleep", ID: "theirs"})
	if c.Agent() != session.DefaultAgent || other.Agent() != "other" {
		t.Errorf("agents %s, %s", c.Agent(), other.Agent())
	}
	for all, want := range map[bool]string{false: "mine", true: "mine theirs"} {
		list, err := c.Sessions(t.Context(), all)
		ids := ""
		for _, st := range list {
			ids += " " + st.ID
		}
		if err != nil || strings.TrimSpace(ids) != want {
			t.Errorf("Sessions(%v): %s, %v", all, ids, err)
		}
	}
	if _, err := c.Attach(t.Context(), "theirs"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("Attach to another agent's: %v", err)
	}
	if st, err := p.Kill(t.Context()); err != nil || st.Reason != session.ReasonKilled {
		t.Errorf("Kill: %+v, %v", st, err)
	}
	if err := q.Remove(t.Context()); !errors.Is(err, corral.ErrRunning) {
		t.Errorf("Remove: %v", err)
	}
	if err := q.Discard(t.Context()); err != nil {
		t.Errorf("Discard: %v", err)
	}
	if _, err := q.Status(t.Context()); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("Status: %v", err)
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if boxes, err := c.Sandboxes(t.Context()); err != nil || len(boxes) != 0 {
		t.Errorf("Sandboxes: %v, %v", boxes, err)
	}
	if list, err := c.Tools(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("Tools: %v, %v", list, err)
	}
	if _, err := c.Exec(t.Context(), tool.ExecRequest{Command: "x"}); !errors.Is(err, errors.ErrUnsupported) || corral.Hint(err) == "" {
		t.Errorf("Exec: %v", err)
	}
	if _, err := c.Process(t.Context(), tool.ProcessRequest{Action: tool.ActionList}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Process: %v", err)
	}
}

// Reading a log in order is one request; reading it here and there is one for
// each.
func TestLogRequests(t *testing.T) {
	g := newRig(t)
	c := g.client(nil)
	p := start(t, c, corral.Command{Shell: "cat", Stdin: true})
	write(t, p, strings.Repeat("0123456789", 10_000))
	if err := p.CloseStdin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for off := int64(0); off < 100_000; off += 100 {
		if got := read(t, p, off, 100); got != strings.Repeat("0123456789", 10) {
			t.Fatalf("at %d: %q", off, got)
		}
	}
	for off := int64(99_000); off > 0; off -= 10_000 {
		if got := read(t, p, off, 10); got != "0123456789" {
			t.Fatalf("at %d: %q", off, got)
		}
	}
	if n := g.requests("GET /v1/sessions/{id}/log"); n < 10 || n > 15 {
		t.Errorf("%d requests", n)
	}
}

func TestEvents(t *testing.T) {
	g := newRig(t)
	c := g.client(nil)
	ids := map[string]bool{}
	for range 3 {
		p := start(t, c, corral.Command{Shell: "cat", Stdin: true})
		ids[p.Info().ID] = true
		if err := p.CloseStdin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	seen := int64(0)
	for e, err := range c.Events(t.Context(), client.EventOptions{}) {
		if err != nil || e.Seq != seen+1 || !ids[e.SessionID] || e.Type != session.EventFinished {
			t.Fatalf("%+v, %v", e, err)
		}
		if seen = e.Seq; seen == 3 {
			break
		}
	}
	for e, err := range c.Events(t.Context(), client.EventOptions{After: 2, AllAgents: true}) {
		if err != nil || e.Seq != 3 {
			t.Errorf("%+v, %v", e, err)
		}
		break
	}
	for after, want := range map[int64]int{0: 3, 1: 2, 3: 0, -1: 0} {
		n := 0
		for e, err := range c.Events(t.Context(), client.EventOptions{After: after, Once: true}) {
			if n++; err != nil || e.Seq <= after {
				t.Fatalf("after %d, once: %+v, %v", after, e, err)
			}
		}
		if n != want {
			t.Errorf("after %d, once: %d events, want %d", after, n, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for e, err := range c.Events(ctx, client.EventOptions{After: -1}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

// An event that is cut in the middle is asked for again.
func TestEventsCut(t *testing.T) {
	var asked []string
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("after"))
		if len(asked) == 1 {
			_, _ = io.WriteString(w, "id: 8\nevent: exec.finished\ndata: {\"seq\":8}\n\nid: 9\nevent: exec.finished\ndata: {\"se")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "id: 9\nevent: exec.finished\ndata: {\"seq\":9}\n\n")
	}))
	defer front.Close()
	c, err := client.New(client.Options{URL: front.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var got []int64
	for e, err := range c.Events(t.Context(), client.EventOptions{After: 3, Once: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Seq)
	}
	if !slices.Equal(got, []int64{8, 9}) || !slices.Equal(asked, []string{"3", "8"}) {
		t.Errorf("the events %d, asked for after %q", got, asked)
	}
}

func TestTCP(t *testing.T) {
	g := newRig(t)
	const token = "a token that is long enough for anybody"
	server, err := gateway.New(gateway.Config{Sessions: g.sessions, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	plain := &http.Server{Handler: server}
	served := make(chan error, 1)
	go func() { served <- plain.Serve(l) }()
	t.Cleanup(func() { plain.Close(); <-served })
	url := "http://" + l.Addr().String()
	open := func(token string) *client.Client {
		return g.client(func(o *client.Options) { o.Socket, o.URL, o.Token = "", url+"/", token })
	}
	p := start(t, open(token), corral.Command{Shell: "echo"})
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 3 {
		t.Errorf("%v, %v", exit, err)
	}
	term, err := p.Attach(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	term.Close()
	if _, err := open("another token").Start(t.Context(), corral.Command{Shell: "echo"}); !errors.Is(err, corral.ErrDenied) || corral.Hint(err) == "" {
		t.Errorf("with another token: %v", err)
	}
	if q, err := open(token).Session(t.Context(), p.Info().ID); err != nil || q.Info().ID != p.Info().ID {
		t.Errorf("Session: %v", err)
	}
	if _, err := open("").Sessions(t.Context(), false); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("without a token: %v", err)
	}
}

// Something else that answers is no gateway, and says so in one line.
func TestForeignServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer := http.StatusNotFound
	other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(answer)
		_, _ = w.Write([]byte("<html>\n<p>what?"))
	})}
	served := make(chan error, 1)
	go func() { served <- other.Serve(l) }()
	t.Cleanup(func() { other.Close(); <-served })
	c, err := client.New(client.Options{URL: "http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, answer = range []int{200, 404, 500} {
		if _, err := c.Start(t.Context(), corral.Command{Shell: "x"}); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d: %v", answer, err)
		}
	}
}

// What waiting does not mend fails at once, with what to do, however patient the
// client is.
func TestPointless(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that fails
	secure.StartTLS()
	defer secure.Close()
	garbage, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { // until the listener is closed
		defer close(served)
		for {
			conn, err := garbage.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("SSH-2.0-other\r\n\r\n"))
			conn.Close()
		}
	}()
	defer func() { garbage.Close(); <-served }()
	for url, hint := range map[string]string{
		"https://" + plain.Listener.Addr().String(): "use http://",
		secure.URL:                          "certificate",
		"http://" + garbage.Addr().String(): "does not speak HTTP",
	} {
		c, err := client.New(client.Options{URL: url, Retry: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		for name, call := range map[string]func() error{
			"list":  func() error { _, err := c.Sessions(ctx, false); return err },
			"start": func() error { _, err := c.Start(ctx, corral.Command{Shell: "x"}); return err },
		} {
			err := call()
			if !errors.Is(err, corral.ErrUnavailable) || errors.Is(err, corral.ErrLost) || !strings.Contains(corral.Hint(err), hint) {
				t.Errorf("%s at %s: %v (%s)", name, url, err, corral.Hint(err))
			}
		}
		cancel()
		c.Close()
	}
}
