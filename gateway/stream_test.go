package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
)

// mixed has characters of each length, bytes that are no UTF-8, and both streams.
var mixed = []struct {
	stream corral.Stream
	text   string
}{
	{corral.Stdout, "aé€😀\n"}, {corral.Stderr, "\xff\xfe"}, {corral.Stdout, "\xe2\x82"}, {corral.Stderr, "Fehler: ü\n"},
	{corral.Stdout, "\xac€\xf0\x9f"}, {corral.Stdout, "\x98\x80 <&> \u2028\x00"}, {corral.Stdout, "\xc3"},
}

func mixedProgram(o *fakeexec.IO) int {
	for _, w := range mixed {
		to := o.Stdout
		if w.stream == corral.Stderr {
			to = o.Stderr
		}
		if _, err := to.Write([]byte(w.text)); err != nil {
			return 1
		}
	}
	return 3
}

func mixedText() (text string) {
	for _, w := range mixed {
		text += w.text
	}
	return text
}

// sse makes lines of NDJSON of server-sent events, and checks their ids and types.
func sse(t testing.TB, body io.Reader) (lines string) {
	t.Helper()
	scan := bufio.NewScanner(body)
	scan.Buffer(nil, 1<<20)
	id, kind := "", ""
	for scan.Scan() {
		name, value, _ := strings.Cut(scan.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			e, err := api.ParseStreamEvent([]byte(value))
			if err != nil || e.Type != kind || strconv.FormatInt(e.Next, 10) != id {
				t.Fatalf("id %q, event %q: %s (%v)", id, kind, value, err)
			}
			lines += value + "\n"
		}
	}
	return lines
}

// readEvents reads a stream to its end, which must be one, and checks that offsets
// join.
func readEvents(t testing.TB, body string) (text string, events []api.StreamEvent) {
	t.Helper()
	if strings.HasPrefix(body, ":") {
		body = sse(t, strings.NewReader(body))
	}
	for line := range strings.Lines(body) {
		e, err := api.ParseStreamEvent([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(events); n > 0 && (events[n-1].Next != e.Offset || events[n-1].Last()) {
			t.Fatalf("%+v follows %+v", e, events[n-1])
		}
		if got := int64(len(e.Output())); e.Type != api.StreamGap && got != e.Next-e.Offset {
			t.Fatalf("%d bytes: %s", got, line)
		}
		text += string(e.Output())
		events = append(events, e)
	}
	if len(events) == 0 || !events[len(events)-1].Last() {
		t.Fatalf("it was cut: %s", body)
	}
	return text, events
}

// kinds are the types of events.
func kinds(events []api.StreamEvent) string {
	list := make([]string, len(events))
	for i, e := range events {
		list[i] = e.Type
	}
	return strings.Join(list, " ")
}

func withMixed(c *Config) {
	c.Tools = func(agent string) Tools { return realTools{tool.New(tool.Config{Agent: c.Sessions.Agent(agent)})} }
}

func newMixedRig(t *testing.T) *rig {
	g := newRig(t, withMixed)
	all := map[string]fakeexec.Program{"mixed": mixedProgram}
	for name, p := range programs {
		all[name] = p
	}
	g.exec.Programs = all
	return g
}

func TestLogEvents(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("echo", "")
	g.ended(id)
	for _, kind := range []string{api.TypeLines, api.TypeEvents} {
		for query, want := range map[string][2]string{
			"":                        {"out\nerr\n", "stdout stderr exit"},
			"?follow":                 {"out\nerr\n", "stdout stderr exit"},
			"?offset=2":               {"t\nerr\n", "stdout stderr exit"},
			"?offset=8&follow":        {"", "exit"},
			"?limit=5":                {"out\ne", "stdout stderr pause"},
			"?follow=true&limit=100":  {"out\n", "stdout pause"},
			"?offset=900&follow=true": {"", "exit"},
		} {
			a := g.do("GET", "/v1/sessions/"+id+"/log"+query, "", "Accept", kind).is(200)
			if got := a.header.Get("Content-Type"); got != kind {
				t.Errorf("the type is %s", got)
			}
			text, events := readEvents(t, a.body)
			last := events[len(events)-1]
			if text != want[0] || kinds(events) != want[1] || last.Type == api.StreamExit && (last.ExitStatus == nil || *last.ExitCode != 3 || last.Signal != nil) {
				t.Errorf("%s %q: %q, %s, %+v", kind, query, text, kinds(events), last)
			}
		}
	}
	// The shape, to the letter.
	a := g.do("GET", "/v1/sessions/"+id+"/log?offset=1&limit=4", "", "Accept", api.TypeEvents)
	want := ": output\nid: 1\n\n" +
		"id: 4\nevent: stdout\ndata: {\"type\":\"stdout\",\"offset\":1,\"next\":4,\"text\":\"ut\\n\"}\n\n" +
		"id: 5\nevent: stderr\ndata: {\"type\":\"stderr\",\"offset\":4,\"next\":5,\"text\":\"e\"}\n\n" +
		"id: 5\nevent: pause\ndata: {\"type\":\"pause\",\"offset\":5,\"next\":5}\n\n"
	if a.body != want {
		t.Errorf("got %s\nwant %s", a.body, want)
	}
}

// From every offset there are the same bytes, whichever character or stream it is in.
func TestLogEventsResume(t *testing.T) {
	g := newMixedRig(t)
	id := g.start("mixed", "")
	g.ended(id)
	want := mixedText()
	for from := range len(want) + 1 {
		for _, kind := range []string{api.TypeLines, api.TypeEvents} {
			query, header := fmt.Sprintf("?follow&offset=%d", from), []string{"Accept", kind}
			if kind == api.TypeEvents {
				query, header = "?follow&offset=0", append(header, "Last-Event-ID", strconv.Itoa(from))
			}
			text, events := readEvents(t, g.do("GET", "/v1/sessions/"+id+"/log"+query, "", header...).is(200).body)
			if text != want[from:] || events[0].Offset != int64(from) {
				t.Errorf("%s from %d: %q, want %q", kind, from, text, want[from:])
			}
		}
	}
	// A character that came in two writes is one event's; what is none is binary.
	_, events := readEvents(t, g.do("GET", "/v1/sessions/"+id+"/log", "", "Accept", api.TypeLines).body)
	if first, last := events[0], events[len(events)-2]; first.Text != "aé€😀\n" || string(last.Output()) != "\xc3" || last.Binary == nil {
		t.Errorf("%+v, %+v", first, last)
	}
}

// Whatever the pieces are in which output comes, no bytes are lost, and no character
// is cut that need not be.
func TestEventsOfPieces(t *testing.T) {
	g := newRig(t, nil)
	text := strings.Repeat("aé€😀", 5)
	for size := 1; size <= len(text); size++ {
		w := &eventStream{kind: api.TypeLines, metrics: g.server.metrics}
		var got bytes.Buffer
		w.w = writer{&got}
		for from := 0; from < len(text); from += size {
			data := text[from:min(len(text), from+size)]
			frame := make([]byte, api.HeaderLen, api.HeaderLen+len(data))
			api.Header{Stream: corral.Stdout, Offset: int64(from), Length: len(data)}.Put(frame)
			if err := w.frame(append(frame, data...)); err != nil {
				t.Fatal(err)
			}
		}
		all := ""
		for line := range strings.Lines(got.String()) {
			e, err := api.ParseStreamEvent([]byte(line))
			if err != nil || e.Type != api.StreamStdout || e.Offset != int64(len(all)) || e.Binary != nil {
				t.Fatalf("pieces of %d: %s (%v)", size, line, err)
			}
			all += e.Text
		}
		if all != text {
			t.Errorf("pieces of %d: %q", size, all)
		}
	}
}

type writer struct{ *bytes.Buffer }

func (writer) Header() http.Header { return http.Header{} }
func (writer) WriteHeader(int)     {}
func (writer) Flush()              {}

func TestLogEventsGap(t *testing.T) {
	g := newRig(t, nil)
	bounded := g.start("big", `,"log":{"head":100,"tail":1000}`)
	g.ended(bounded)
	for query, want := range map[string]string{"": "stdout gap stdout exit", "?offset=50": "stdout gap stdout exit", "?offset=5000": "gap stdout exit", "?offset=4193400": "stdout exit"} {
		text, events := readEvents(t, g.do("GET", "/v1/sessions/"+bounded+"/log"+query, "", "Accept", api.TypeLines).body)
		if kinds(events) != want || events[len(events)-1].Next != 4<<20 || len(text) > 1100 {
			t.Errorf("%s: %s, %d bytes", query, kinds(events), len(text))
		}
	}
	id := g.start("big", "")
	g.ended(id)
	text, events := readEvents(t, g.do("GET", "/v1/sessions/"+id+"/log?follow", "", "Accept", api.TypeEvents).body)
	if len(text) != 4<<20 {
		t.Errorf("%d bytes", len(text))
	}
	for _, e := range events {
		if len(e.Text) > api.MaxEventOutput {
			t.Errorf("an event of %d bytes", len(e.Text))
		}
	}
}

// One call starts a command and streams it; the same call again goes on.
func TestStartEvents(t *testing.T) {
	g := newMixedRig(t)
	for path, body := range map[string]string{"/v1/sessions": `{"id":"one","command":"mixed"}`, "/v1/exec": `{"sessionId":"two","command":"mixed"}`} {
		for n, from := range []int{0, 0, 5} {
			status := 200
			if n == 0 && path == "/v1/sessions" {
				status = 201
			}
			a := g.do("POST", fmt.Sprintf("%s?offset=%d", path, from), body, "Accept", api.TypeLines).is(status)
			text, events := readEvents(t, a.body)
			if text != mixedText()[from:] || events[0].Type != api.StreamStarted || events[len(events)-1].Type != api.StreamExit {
				t.Errorf("%s from %d: %q, %s", path, from, text, kinds(events))
			}
			var st session.Status
			if err := json.Unmarshal(events[0].Session, &st); err != nil || st.ID != "one" && st.ID != "two" || st.Agent != "main" {
				t.Errorf("%s: %s (%v)", path, events[0].Session, err)
			}
		}
	}
	if n := g.exec.Starts(); n != 2 {
		t.Errorf("%d commands were started", n)
	}
	// Without an ID there is one, under which the output stays.
	_, events := readEvents(t, g.do("POST", "/v1/exec", `{"command":"mixed"}`, "Accept", api.TypeEvents).is(200).body)
	var st session.Status
	if err := json.Unmarshal(events[0].Session, &st); err != nil {
		t.Fatal(err)
	}
	if text, _ := readEvents(t, g.do("GET", "/v1/sessions/"+st.ID+"/log", "", "Accept", api.TypeLines).is(200).body); text != mixedText() {
		t.Errorf("%q", text)
	}
}

// What is not started is answered as without events.
func TestStartEventsRefused(t *testing.T) {
	g := newRig(t, withMixed)
	g.do("POST", "/v1/sessions", `{"command":""}`, "Accept", api.TypeLines).code(400, "invalid")
	g.do("POST", "/v1/sessions?offset=-1", `{"command":"echo"}`, "Accept", api.TypeLines).code(400, "invalid")
	pending := corral.Errorf(corral.ErrApproval, "wait", "it needs an approval")
	g.exec.Fault = func(fakeexec.Op, string) error { return pending }
	g.do("POST", "/v1/sessions", `{"command":"echo"}`, "Accept", api.TypeLines).code(403, "approval-pending")
	a := g.do("POST", "/v1/exec", `{"command":"echo"}`, "Accept", api.TypeLines).is(200)
	if a.header.Get("Content-Type") != api.TypeJSON || !strings.Contains(a.body, `"status":"approval-pending"`) {
		t.Errorf("%s: %s", a.header.Get("Content-Type"), a.body)
	}
	g.do("POST", "/v1/exec", `[]`, "Accept", api.TypeLines).code(400, "invalid")
}

// A client that goes away ends what its call has in the foreground, and nothing else.
func TestStartEventsGone(t *testing.T) {
	g := newRig(t, withMixed)
	for path, ends := range map[string]bool{"/v1/sessions": false, "/v1/exec": true} {
		ctx, cancel := context.WithCancel(t.Context())
		r := request(ctx, t, "POST", "http://localhost"+path, `{"command":"sleep"}`)
		r.Header.Set("Accept", api.TypeLines)
		resp, err := g.unix.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(resp.Body).ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		e, err := api.ParseStreamEvent(line)
		var st session.Status
		if err := errors.Join(err, json.Unmarshal(e.Session, &st)); err != nil {
			t.Fatal(err)
		}
		cancel()
		resp.Body.Close()
		if ends {
			if st := g.ended(st.ID); st.Reason != session.ReasonCancelled {
				t.Errorf("%s: %+v", path, st)
			}
		} else if st := g.do("GET", "/v1/sessions/"+st.ID+"/wait?timeout=1.5s", "").is(200).decoded(); st.Ended() {
			t.Errorf("%s: %+v", path, st)
		}
	}
}

// A gateway that stops says that there is more to come, and loses no byte of half a
// character.
func TestEventsDrain(t *testing.T) {
	g := newRig(t, withMixed)
	id := g.start("cat", `,"stdin":true`)
	next, done := g.lines("/v1/sessions/"+id+"/log?follow", "Accept", api.TypeEvents)
	defer done()
	next()
	g.do("POST", "/v1/sessions/"+id+"/stdin", "ab\xe2\x82").is(200)
	if got := next(); !strings.Contains(got, `"text":"ab"`) || !strings.HasPrefix(got, "id: 2\n") {
		t.Errorf("%q", got)
	}
	g.stop()
	if got := next(); !strings.Contains(got, `"binary":"4oI="`) || !strings.HasPrefix(got, "id: 4\n") {
		t.Errorf("%q", got)
	}
	if got := next(); got != "id: 4\nevent: pause\ndata: {\"type\":\"pause\",\"offset\":4,\"next\":4}\n" {
		t.Errorf("%q", got)
	}
	if got := next(); got != "EOF" {
		t.Errorf("%q", got)
	}
}

// Half a character does not wait for long, and a quiet stream lives.
func TestEventsQuiet(t *testing.T) {
	g := newRig(t, nil)
	g.server.heartbeat = 50 * time.Millisecond
	id := g.start("cat", `,"stdin":true`)
	g.do("POST", "/v1/sessions/"+id+"/stdin", "\xe2\x82").is(200)
	next, done := g.lines("/v1/sessions/"+id+"/log?follow", "Accept", api.TypeEvents)
	defer done()
	for _, want := range []string{": output\nid: 0\n", "id: 2\nevent: stdout\n", ": nothing new\nid: 2\n", ": nothing new\nid: 2\n"} {
		if got := next(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A read that is broken off while it waits for its turn pays once.
func TestPaceBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{log: &endless{began: time.Now(), rate: 16 << 20, kept: 1 << 40}, pace: newPacer(1 << 20), idle: never(10 * time.Millisecond)}
		time.Sleep(time.Second)
		before, off := time.Now(), int64(0)
		for off < paceBurst+(8<<20) {
			c, err := r.Read(t.Context(), off, make([]byte, api.MaxFrame))
			if err != nil {
				t.Fatal(err)
			}
			off = c.Next()
		}
		if took := time.Since(before); took < 7*time.Second || took > 9*time.Second {
			t.Errorf("8 MiB at 1 MiB a second took %v", took)
		}
	})
}

type never time.Duration

func (n never) patience() time.Duration { return time.Duration(n) }
func (n never) idle() error             { return nil }

func TestAccepted(t *testing.T) {
	for header, want := range map[string]string{
		"": api.TypeJSON, "*/*": api.TypeJSON, "text/html": api.TypeJSON, "application/*": api.TypeJSON, ";;,/": api.TypeJSON,
		api.TypeLines: api.TypeLines, api.TypeEvents: api.TypeEvents, "Text/Event-Stream; charset=utf-8": api.TypeEvents,
		"application/json, text/event-stream":             api.TypeJSON, // as MCP clients say
		"application/json;q=0.5, text/event-stream":       api.TypeEvents,
		"text/event-stream;q=0.1, application/x-ndjson":   api.TypeLines,
		"text/event-stream, application/x-ndjson":         api.TypeEvents,
		"text/event-stream;q=0":                           api.TypeJSON,
		"text/event-stream;q=2":                           api.TypeJSON,
		"text/event-stream;q=x, application/x-ndjson;q=1": api.TypeLines,
	} {
		r := request(t.Context(), t, "GET", "http://localhost/", "")
		r.Header.Set("Accept", header)
		if got := accepted(r, api.TypeJSON); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

// FuzzLogQuery: whatever a client asks for, the offset is sane or the request is
// refused.
func FuzzLogQuery(f *testing.F) {
	f.Add("offset=1&follow", "7", api.TypeEvents)
	f.Add("offset=-1&limit=9999999999999999999", "+1", api.TypeLines)
	f.Add("", "4611686018427387905", "a/b;q=, */*")
	f.Fuzz(func(t *testing.T, query, id, accept string) {
		r := request(t.Context(), t, "GET", "http://localhost/", "")
		r.URL.RawQuery = query
		r.Header.Set("Last-Event-ID", id)
		r.Header.Set("Accept", accept)
		q, err := parseLogQuery(r, api.TypeLog)
		if err != nil {
			if !errors.Is(err, corral.ErrInvalid) {
				t.Error(err)
			}
			return
		}
		if n, ok := api.ParseOffset(id); q.from < 0 || q.limit < 0 || q.kind != api.TypeLog && id != "" && (!ok || q.from != n) {
			t.Errorf("%+v of id %q", q, id)
		}
	})
}
