package gateway

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/session"
)

// lines reads server-sent events.
func (g *rig) lines(path string, header ...string) (next func() string, close func()) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	r := request(ctx, g.t, "GET", "http://localhost"+path, "")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := g.unix.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		g.t.Fatalf("%s: %d", path, resp.StatusCode)
	}
	scan := bufio.NewScanner(resp.Body)
	return func() string {
			g.t.Helper()
			text := ""
			for scan.Scan() {
				if scan.Text() == "" {
					return text
				}
				text += scan.Text() + "\n"
			}
			return "EOF"
		}, func() {
			cancel()
			resp.Body.Close()
		}
}

func TestEvents(t *testing.T) {
	g := newRig(t, nil)
	next, closeFirst := g.lines("/v1/events")
	if first := next(); !strings.Contains(first, "id: 0\n") {
		t.Errorf("it begins with %q", first)
	}
	id := g.start("cat", `,"stdin":true,"notifyOnExit":true`)
	g.do("POST", "/v1/sessions/"+id+"/stdin?eof=true", "last words\n").is(200)
	if e := next(); !strings.HasPrefix(e, "id: 1\nevent: exec.finished\ndata: {") || !strings.Contains(e, id) || !strings.Contains(e, "last words") {
		t.Errorf("the event is %q", e)
	}
	closeFirst()

	// Nothing of what happens meanwhile is missed.
	for range 2 {
		other := g.start("cat", `,"stdin":true,"notifyOnExit":true`)
		g.do("POST", "/v1/sessions/"+other+"/stdin?eof=true", "").is(200)
	}
	next, closeSecond := g.lines("/v1/events?after=0", "Last-Event-ID", "1")
	defer closeSecond()
	next()
	for _, want := range []string{"id: 2\n", "id: 3\n"} {
		if e := next(); !strings.HasPrefix(e, want) {
			t.Errorf("the event is %q, want %s", e, want)
		}
	}
	// Those of others are theirs, unless they are asked for.
	other, closeOther := g.lines("/v1/events?after=0&agent=*", "Corral-Agent", "other")
	defer closeOther()
	other()
	if e := other(); !strings.HasPrefix(e, "id: 1\n") {
		t.Errorf("the event is %q", e)
	}
	g.stop()
	if e := next(); e != "EOF" {
		t.Errorf("after the end: %q", e)
	}
}

// On a quiet stream there is a line from time to time, with the number at which
// to go on.
func TestHeartbeat(t *testing.T) {
	g := newRig(t, nil)
	g.server.heartbeat = time.Millisecond
	for range 7 {
		if err := g.sessions.Announce(session.Event{Type: session.EventDenied, Agent: "main"}); err != nil {
			t.Fatal(err)
		}
	}
	next, done := g.lines("/v1/events?after=7", api.HeaderAgent, "other")
	defer done()
	for range 3 {
		if got := next(); !strings.HasPrefix(got, ": ") || !strings.Contains(got, "id: 7\n") {
			t.Errorf("on a quiet stream: %q", got)
		}
	}
}

// Who missed events is told where they go on: at the first that is kept, since
// the connection may be cut before that is sent.
func TestMissed(t *testing.T) {
	text, err := eventText(session.Events{Missed: true, Next: 9, Events: []session.Event{{Seq: 6, Type: session.EventFinished}, {Seq: 9}}})
	if err != nil || !strings.HasPrefix(text, "id: 5\nevent: corral.missed\ndata: {\"next\":5}\n\nid: 6\n") {
		t.Errorf("%q, %v", text, err)
	}
}

// A client that saw events whose numbers are given again, after a power cut, is told so, and
// does not wait until they are all given.
func TestEventsGivenAgain(t *testing.T) {
	g := newRig(t, nil)
	if body := g.do("GET", "/v1/events?once&after=9", "").is(200).body; !strings.Contains(body, "id: 0\nevent: corral.missed\ndata: {\"next\":0}\n") {
		t.Errorf("%q", body)
	}
}
