package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

func (a answer) written() api.Written {
	a.t.Helper()
	var w api.Written
	if err := json.Unmarshal([]byte(a.body), &w); err != nil {
		a.t.Fatalf("%s: %v", a.body, err)
	}
	return w
}

func TestStdin(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("cat", `,"stdin":true`)
	path := "/v1/sessions/" + id + "/stdin"
	if n := g.do("POST", path, "hello\n").is(200).written().N; n != 6 {
		t.Errorf("written %d", n)
	}
	if n := g.do("POST", path, "").is(200).written().N; n != 0 {
		t.Errorf("written %d", n)
	}
	big := strings.Repeat("0123456789abcdef", 8<<20/16)
	if n := g.do("POST", path+"?eof=true", big).is(200).written().N; n != 8<<20 {
		t.Errorf("written %d", n)
	}
	g.do("POST", path+"?eof=true", "").is(200) // twice is no error
	if st := g.ended(id); st.OutputBytes != 8<<20+6 {
		t.Errorf("cat wrote %d bytes", st.OutputBytes)
	}
	if a := g.do("GET", "/v1/sessions/"+id+"/output", "").is(200); a.body != "hello\n"+big {
		t.Errorf("cat wrote %d bytes of something else", len(a.body))
	}
	// What is not wanted is read all the same: the answer arrives.
	if w := g.do("POST", path, big).is(409).written(); w.N != 0 || w.Error == nil || w.Error.Code != "ended" && w.Error.Code != "stdin-closed" {
		t.Errorf("after the end: %+v", w)
	}
}

// A body of unknown length is written as it comes.
func TestStdinStream(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("cat", `,"stdin":true`)
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://localhost/v1/sessions/"+id+"/stdin?eof=true", r)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = -1
	req.Header.Set("Content-Type", api.TypeBytes)
	done := make(chan error, 1)
	go func() {
		resp, err := g.unix.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	off := 0
	for _, line := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(w, line); err != nil {
			t.Fatal(err)
		}
		g.await(id, off, line)
		off += len(line)
		// Others get a turn meanwhile.
		g.do("POST", "/v1/sessions/"+id+"/stdin", "other\n").is(200)
		g.await(id, off, "other\n")
		off += len("other\n")
	}
	w.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	g.ended(id)
}

// await waits for output at an offset.
func (g *rig) await(id string, off int, want string) {
	g.t.Helper()
	got := ""
	for len(got) < len(want) {
		a := g.do("GET", "/v1/sessions/"+id+"/log?follow=true&limit=100&offset="+itoa(off+len(got)), "").is(200)
		c, err := api.NewFrameReader(strings.NewReader(a.body)).Chunk(make([]byte, 100))
		if err != nil {
			g.t.Fatalf("waiting for %q, which is %q: %v", want, got, err)
		}
		got += string(c.Data)
	}
	if got != want {
		g.t.Fatalf("the output at %d is %q, want %q", off, got, want)
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// Writes of several clients are not mixed, however large.
func TestStdinWholeWrites(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("cat", `,"stdin":true`)
	const each = 300_000
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			g.do("POST", "/v1/sessions/"+id+"/stdin", strings.Repeat(string(rune('a'+i)), each))
		})
	}
	wg.Wait()
	g.do("POST", "/v1/sessions/"+id+"/stdin?eof=true", "").is(200)
	g.ended(id)
	out := g.do("GET", "/v1/sessions/"+id+"/output", "").is(200).body
	for i := 0; i < len(out); i += each {
		if part := out[i : i+each]; part != strings.Repeat(part[:1], each) {
			t.Fatal("writes are mixed")
		}
	}
	if len(out) != 5*each {
		t.Errorf("%d bytes", len(out))
	}
}

// A write can be ended by its name; its own answer says how far it came.
func TestStdinCancel(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("sleep", `,"stdin":true`)
	path := "/v1/sessions/" + id + "/stdin"
	got := make(chan answer, 1)
	go func() { got <- g.do("POST", path+"?write=w1", strings.Repeat("x", 1<<20)) }()
	for g.do("DELETE", path+"/w1", "").status != 204 { // until it has arrived
		time.Sleep(time.Millisecond)
	}
	if w := (<-got).is(503).written(); w.Error == nil || w.N >= 1<<20 {
		t.Errorf("the cancelled write: %+v", w)
	}
	if a := g.do("DELETE", path+"/w1", ""); a.status != 404 {
		t.Errorf("cancelled again: %d", a.status)
	}
}

// A connection that is cut in the middle of a body ends the write, and others
// get their turn.
func TestStdinCut(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("cat", `,"stdin":true`)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://localhost/v1/sessions/"+id+"/stdin", r)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 1000
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := g.unix.Transport.(validating).next.RoundTrip(req); err == nil {
			resp.Body.Close()
			t.Errorf("the answer is %d", resp.StatusCode)
		}
	}()
	if _, err := w.Write(bytes.Repeat([]byte("x"), 10)); err != nil {
		t.Fatal(err)
	}
	g.await(id, 0, "xxxxxxxxxx")
	cancel()
	w.Close()
	<-done
	g.do("POST", "/v1/sessions/"+id+"/stdin?eof=true", "y").is(200)
	g.await(id, 10, "y")
}

// Input that comes at the very end of a session: the command does not read any more, or the
// client is gone with the session. Neither is a fault of the gateway.
func TestStdinAtTheEnd(t *testing.T) {
	g := newRig(t, nil)
	var why error
	g.exec.Fault = func(op fakeexec.Op, _ string) error {
		if op == fakeexec.OpWrite || op == fakeexec.OpCloseStdin {
			return why
		}
		return nil
	}
	id := g.start("sleep", `,"stdin":true,"tty":{}`)
	path := "/v1/sessions/" + id + "/stdin"
	why = corral.Errorf(corral.ErrEnded, "", "process %s has ended", id)
	for _, query := range []string{"", "?eof=true"} {
		if w := g.do("POST", path+query, "x").is(409).written(); w.N != 0 || w.Error == nil || w.Error.Code != "ended" {
			t.Errorf("%s: %+v", query, w)
		}
	}
	why = nil
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://localhost"+path+"?eof=true", strings.NewReader("nobody reads it"))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, cancel)
	if resp, err := g.unix.Transport.(validating).next.RoundTrip(req); err == nil {
		resp.Body.Close()
		t.Errorf("the answer is %d", resp.StatusCode)
	}
	for deadline := time.Now().Add(5 * time.Second); !strings.Contains(g.log.String(), "status=499"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log has no client that was gone:\n%s", g.log.String())
		}
	}
	if strings.Contains(g.log.String(), "status=500") {
		t.Errorf("the log has a fault of the gateway:\n%s", g.log.String())
	}
}

// One person types at a time: another is told, and can take over. Programs are not kept
// from writing.
func TestTakeOver(t *testing.T) {
	g := newRig(t, nil)
	g.start("cat", `,"id":"s","stdin":true`)
	write := func(query, text string) answer { return g.do("POST", "/v1/sessions/s/stdin"+query, text) }
	write("?writer=one", "a").is(200)
	if a := write("?writer=two", "b").code(409, "conflict"); !strings.Contains(a.body, "owner types in this session") {
		t.Errorf("%s", a.body)
	}
	write("", "c").is(200)
	write("?writer=two&take=true", "").is(200)
	write("?writer=one", "d").code(409, "conflict")
	write("?writer=two", "e").is(200)
	g.server.inputs.mu.Lock()
	for s, h := range g.server.inputs.holds { // who does not write for a minute has it no more
		h.at = h.at.Add(-2 * holdFor)
		g.server.inputs.holds[s] = h
	}
	g.server.inputs.mu.Unlock()
	write("?writer=one&eof=true", "f").is(200)
	g.ended("s")
	if out := g.do("GET", "/v1/sessions/s/output", "").is(200).body; out != "acef" {
		t.Errorf("it read %q", out)
	}
}
