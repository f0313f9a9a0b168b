package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// readFrames reads an answer to its last frame.
func readFrames(t *testing.T, body io.Reader) (text string, chunks []corral.Chunk, last api.Header) {
	t.Helper()
	f := api.NewFrameReader(body)
	for {
		h, err := f.Next()
		if err != nil {
			t.Fatalf("frame %d: %v", len(chunks), err)
		}
		if h.Last() {
			return text, chunks, h
		}
		data := make([]byte, 0, h.Length)
		for f.Rest() > 0 {
			c, err := f.Chunk(make([]byte, h.Length))
			if err != nil {
				t.Fatal(err)
			}
			data = append(data, c.Data...)
		}
		text += string(data)
		chunks = append(chunks, corral.Chunk{Stream: h.Stream, Offset: h.Offset, Data: data})
	}
}

func TestLog(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("echo", "")
	g.ended(id)
	for query, want := range map[string]struct {
		text string
		last corral.Stream
	}{
		"":                         {"out\nerr\n", api.StreamEnd},
		"?follow":                  {"out\nerr\n", api.StreamEnd},
		"?offset=2":                {"t\nerr\n", api.StreamEnd},
		"?offset=8":                {"", api.StreamEnd},
		"?offset=900&follow=true":  {"", api.StreamEnd},
		"?limit=5":                 {"out\ne", api.StreamPause},
		"?offset=1&limit=2":        {"ut", api.StreamPause},
		"?follow=true&limit=100":   {"out\n", api.StreamPause}, // one frame is of one stream
		"?offset=7&limit=1":        {"\n", api.StreamPause},
		"?follow=false&offset=4":   {"err\n", api.StreamEnd},
		"?limit=0&offset=0&follow": {"out\nerr\n", api.StreamEnd},
	} {
		a := g.do("GET", "/v1/sessions/"+id+"/log"+query, "").is(200)
		if a.header.Get("Content-Type") != api.TypeLog {
			t.Errorf("the type is %s", a.header.Get("Content-Type"))
		}
		text, _, last := readFrames(t, strings.NewReader(a.body))
		if text != want.text || last.Stream != want.last {
			t.Errorf("%q: %q and a last frame of %d, want %q and %d", query, text, last.Stream, want.text, want.last)
		}
	}
	if a := g.do("GET", "/v1/sessions/"+id+"/log/stat", "").is(200); a.body != `{"size":8,"gapStart":0,"gapEnd":0,"ended":true}`+"\n" {
		t.Errorf("stat: %s", a.body)
	}

	running := g.start("cat", `,"stdin":true`)
	g.do("POST", "/v1/sessions/"+running+"/stdin", "hello").is(200)
	text, _, last := readFrames(t, strings.NewReader(g.do("GET", "/v1/sessions/"+running+"/log?follow=true&limit=9", "").body))
	if text != "hello" || last.Stream != api.StreamPause || last.Offset != 5 {
		t.Errorf("%q, %+v", text, last)
	}
	if text, _, last := readFrames(t, strings.NewReader(g.do("GET", "/v1/sessions/"+running+"/log", "").body)); text != "hello" || last.Stream != api.StreamPause {
		t.Errorf("%q, %+v", text, last)
	}
}

// A gap is as long as the next frame's offset says.
func TestLogGap(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("big", `,"log":{"head":100,"tail":1000}`)
	g.ended(id)
	_, chunks, last := readFrames(t, strings.NewReader(g.do("GET", "/v1/sessions/"+id+"/log?follow", "").body))
	kept, gaps, next := int64(0), int64(0), int64(0)
	for _, c := range chunks {
		gaps += c.Offset - next
		kept += int64(len(c.Data))
		next = c.Next()
	}
	if kept != 1100 || kept+gaps != 4<<20 || last.Offset != 4<<20 || last.Stream != api.StreamEnd {
		t.Errorf("kept %d, left out %d, last %+v", kept, gaps, last)
	}
}

func TestFollow(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("cat", `,"stdin":true`)
	resp, err := g.unix.Do(request(t.Context(), t, "GET", "http://localhost/v1/sessions/"+id+"/log?follow=true", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	f := api.NewFrameReader(resp.Body)
	for _, word := range []string{"one", "two", "three"} {
		g.do("POST", "/v1/sessions/"+id+"/stdin", word).is(200)
		c, err := f.Chunk(make([]byte, 100))
		if err != nil || string(c.Data) != word {
			t.Fatalf("%q, %v", c.Data, err)
		}
	}
	g.do("POST", "/v1/sessions/"+id+"/stdin?eof=true", "").is(200)
	if _, err := f.Chunk(make([]byte, 100)); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

// oneByOne is a log with a byte in each chunk.
type oneByOne struct{ corral.Log }

func (oneByOne) Read(_ context.Context, off int64, buf []byte) (corral.Chunk, error) {
	return corral.Chunk{Stream: corral.Stdout, Offset: off, Data: buf[:1]}, nil
}

// Where the gateway stops, the last frame says where the output goes on that was not sent.
func TestPauseIsBehindWhatWasSent(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var last api.Header
	var sent int64
	err := frames(ctx, &reader{log: oneByOne{}, pace: &pacer{}}, frameRange{until: -1}, func(frame []byte) (err error) {
		last, err = api.ParseHeader(frame)
		if sent += int64(last.Length); sent == 3 {
			cancel(errStopping)
		}
		return err
	})
	if err != nil || last.Stream != api.StreamPause || last.Offset != sent {
		t.Errorf("%d bytes were sent, and the last frame is %+v, %v", sent, last, err)
	}
}

func TestMaxFollowers(t *testing.T) {
	g := newRig(t, func(c *Config) { c.MaxFollowers = 2 })
	id := g.start("sleep", "")
	var open []io.Closer
	for range 2 {
		resp, err := g.unix.Do(request(t.Context(), t, "GET", "http://localhost/v1/sessions/"+id+"/log?follow=true", ""))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, resp.Body)
	}
	g.do("GET", "/v1/sessions/"+id+"/log?follow=true", "").code(503, "unavailable")
	g.do("GET", "/v1/events", "").code(503, "unavailable")
	for _, c := range open {
		c.Close()
	}
	for g.do("GET", "/v1/sessions/"+id+"/log", "").status == 503 { // until the gateway has noticed
		time.Sleep(time.Millisecond)
	}
}

// A client that takes nothing is cut off, and delays no other.
func TestSlowFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := &stalled{}
		w := &response{ResponseWriter: pipe, rc: http.NewResponseController(pipe)}
		begin := time.Now()
		for i := range 3 {
			time.Sleep(StallLimit - 2*time.Second)
			if _, err := w.Write(make([]byte, 3*piece)); err != nil {
				t.Fatalf("write %d: %v", i, err)
			}
			if left := time.Until(pipe.deadline); left < StallLimit-time.Second || left > StallLimit {
				t.Errorf("write %d has %v", i, left)
			}
		}
		if pipe.most > piece || time.Since(begin) != 3*(StallLimit-2*time.Second) {
			t.Errorf("pieces of %d bytes", pipe.most)
		}
	})
}

type stalled struct {
	http.ResponseWriter
	deadline time.Time
	most     int
}

func (s *stalled) SetWriteDeadline(t time.Time) error { s.deadline = t; return nil }
func (s *stalled) Write(p []byte) (int, error)        { s.most = max(s.most, len(p)); return len(p), nil }

// endless is the log of a command that writes fast. Little of it is kept.
type endless struct {
	began time.Time
	rate  int64 // bytes a second
	kept  int64
	reads int
	ended bool
}

func (l *endless) Stat(context.Context) (corral.LogStat, error) {
	size := int64(time.Since(l.began).Seconds() * float64(l.rate))
	return corral.LogStat{Size: size, GapEnd: max(0, size-l.kept), Ended: l.ended}, nil
}

func (l *endless) Read(ctx context.Context, off int64, buf []byte) (corral.Chunk, error) {
	st, _ := l.Stat(ctx)
	for st.Size <= off {
		time.Sleep(time.Millisecond)
		st, _ = l.Stat(ctx)
	}
	l.reads++
	if off < st.GapEnd {
		off = st.GapEnd
	}
	n := min(int64(len(buf)), st.Size-off)
	return corral.Chunk{Stream: corral.Stdout, Offset: off, Data: buf[:n]}, ctx.Err()
}

// All followers of a fast command together read no more than the rate, in large
// pieces; the command is what does not wait.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const followers, rate, seconds = 10, 64 << 20, 10
		ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
		defer cancel()
		pace := newPacer(rate)
		logs := make([]*endless, followers)
		sent := make([]int64, followers)
		done := make(chan error)
		for i := range followers {
			logs[i] = &endless{began: time.Now(), rate: 1 << 30, kept: 32 << 20}
			go func() {
				done <- frames(ctx, &reader{log: logs[i], pace: pace}, frameRange{until: -1}, func(f []byte) error {
					sent[i] += int64(len(f))
					return nil
				})
			}()
		}
		var all, reads int64
		for range followers {
			if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it ended with %v", err)
			}
		}
		for i := range followers {
			all, reads = all+sent[i], reads+int64(logs[i].reads)
			if sent[i] < rate*seconds/followers/2 {
				t.Errorf("follower %d got %d bytes", i, sent[i])
			}
		}
		if most := int64(rate*seconds + paceBurst + followers*api.MaxFrame); all > most || all < most*8/10 {
			t.Errorf("all followers got %d bytes, want at most %d", all, most)
		}
		if piece := all / reads; piece < api.MaxFrame*8/10 {
			t.Errorf("a read got %d bytes on average", piece)
		}
	})
}

// A follower that the command overtakes goes on in the middle of what is kept,
// where it can read for a while; where nothing is overtaken, nothing is left
// out.
func TestPaceOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &endless{began: time.Now(), rate: 1 << 30, kept: 32 << 20}
		r := &reader{log: log, pace: newPacer(1 << 20)}
		time.Sleep(time.Second)
		off := int64(0)
		for range 40 {
			c, err := r.Read(t.Context(), off, make([]byte, api.MaxFrame))
			if err != nil {
				t.Fatal(err)
			}
			off = c.Next()
		}
		st, _ := log.Stat(t.Context())
		if ahead := off - st.GapEnd; ahead < log.kept/4 {
			t.Errorf("it reads %d bytes before what is overwritten next", ahead)
		}

		still := &still{corral.LogStat{Size: 32 << 20, GapStart: 8 << 20, GapEnd: 16 << 20}}
		r, off = &reader{log: still, pace: newPacer(1 << 20)}, 0
		read := int64(0)
		for off < still.stat.Size {
			c, err := r.Read(t.Context(), off, make([]byte, api.MaxFrame))
			if err != nil {
				t.Fatal(err)
			}
			off, read = c.Next(), read+int64(len(c.Data))
		}
		if read != still.stat.Size-still.stat.Gap() {
			t.Errorf("%d bytes were read of %d that are kept", read, still.stat.Size-still.stat.Gap())
		}
	})
}

// still is the log of a command that has written and goes on without a word.
type still struct{ stat corral.LogStat }

func (l *still) Stat(context.Context) (corral.LogStat, error) { return l.stat, nil }

func (l *still) Read(_ context.Context, off int64, buf []byte) (corral.Chunk, error) {
	end := l.stat.Size
	if off < l.stat.GapStart {
		end = l.stat.GapStart
	} else if off < l.stat.GapEnd {
		off = l.stat.GapEnd
	}
	return corral.Chunk{Stream: corral.Stdout, Offset: off, Data: buf[:min(int64(len(buf)), end-off)]}, nil
}

// What a person can type or read is never delayed, however much others read.
func TestPaceSmallReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{log: &endless{began: time.Now(), rate: 1000, kept: 1 << 20}, pace: newPacer(64 << 20)}
		off := int64(0)
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			before := time.Now()
			c, err := r.Read(t.Context(), off, make([]byte, 100))
			if err != nil || time.Since(before) != 0 {
				t.Fatalf("%v after %v", err, time.Since(before))
			}
			off = c.Next()
		}
	})
}

// An ended log is read as fast as it can be.
func TestPaceEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &endless{began: time.Now().Add(-time.Second), rate: 1 << 30, kept: 1 << 30, ended: true}
		r, off, before := &reader{log: log, pace: newPacer(1 << 20)}, int64(0), time.Now()
		for off < 512<<20 {
			c, err := r.Read(t.Context(), off, make([]byte, api.MaxFrame))
			if err != nil {
				t.Fatal(err)
			}
			off = c.Next()
		}
		if took := time.Since(before); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestOutput(t *testing.T) {
	g := newRig(t, nil)
	id, big := g.start("echo", ""), g.start("big", `,"log":{"head":100,"tail":1000}`)
	g.ended(id)
	g.ended(big)
	for _, tt := range []struct {
		id, query, rng string
		status         int
		body           string
		length         int
		header         string // Content-Range, or Corral-Gap
	}{
		{id, "", "", 200, "out\nerr\n", 8, ""},
		{id, "?stream=stdout", "", 200, "out\n", 4, ""},
		{id, "?stream=stderr", "", 200, "err\n", 4, ""},
		{id, "?stream=stderr", "bytes=0-1", 200, "err\n", 4, ""},
		{id, "?stream=all", "bytes=2-5", 206, "t\ner", 4, "bytes 2-5/8"},
		{id, "", "bytes=6-", 206, "r\n", 2, "bytes 6-7/8"},
		{id, "", "bytes=-3", 206, "rr\n", 3, "bytes 5-7/8"},
		{id, "", "bytes=0-999", 206, "out\nerr\n", 8, "bytes 0-7/8"},
		{id, "", "bytes=8-", 416, "", -1, "bytes */8"},
		{id, "", "bytes=5-2", 200, "out\nerr\n", 8, ""},
		{id, "", "bytes=0-1,3-4", 200, "out\nerr\n", 8, ""},
		{id, "", "lines=0-1", 200, "out\nerr\n", 8, ""},
		{big, "", "", 200, "", 1100, "100-4193304"},
		{big, "", "bytes=50-1000", 206, "", 50, "bytes 50-99/4194304"},
		{big, "", "bytes=1000-4193400", 206, "", 97, "bytes 4193304-4193400/4194304"},
		{big, "", "bytes=1000-2000", 416, "", -1, "bytes */4194304"},
	} {
		a := g.do("GET", "/v1/sessions/"+tt.id+"/output"+tt.query, "", "Range", tt.rng)
		got := a.header.Get("Content-Range") + a.header.Get(headerGap)
		if a.status != tt.status || tt.body != "" && a.body != tt.body || tt.length >= 0 && len(a.body) != tt.length || got != tt.header {
			t.Errorf("%s %q: %d %q, %d bytes %.20q, want %+v", tt.query, tt.rng, a.status, got, len(a.body), a.body, tt)
		}
	}
	running := g.start("cat", `,"stdin":true`)
	g.do("POST", "/v1/sessions/"+running+"/stdin", "so far").is(200)
	readFrames(t, strings.NewReader(g.do("GET", "/v1/sessions/"+running+"/log?follow=true&limit=9", "").body))
	if a := g.do("GET", "/v1/sessions/"+running+"/output", "").is(200); a.body != "so far" {
		t.Errorf("so far: %q", a.body)
	}
}
