package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/corral-exec/corral"
)

// What an event holds is read as it was written: text as text, anything else in base64.
func FuzzStreamEvent(f *testing.F) {
	for _, s := range []string{"out\n", "é€😀", "\xff\x00", "\xe2\x82", "<&>\u2028\ufffd"} {
		f.Add([]byte(s), int64(7), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, off int64, stderr bool) {
		if off < 0 || off > maxOffset/2 || len(data) == 0 {
			return
		}
		c := corral.Chunk{Stream: corral.Stdout, Offset: off, Data: data}
		if stderr {
			c.Stream = corral.Stderr
		}
		e := OutputEvent(c)
		line, err := e.AppendLine(nil)
		if err != nil || bytes.Count(line, []byte("\n")) != 1 || bytes.Contains(line, []byte("\r")) {
			t.Fatalf("%q, %v", line, err)
		}
		got, err := ParseStreamEvent(line)
		if err != nil || !bytes.Equal(got.Output(), data) || got.Next-got.Offset != int64(len(data)) || (got.Type == StreamStderr) != stderr {
			t.Fatalf("%q became %+v (%v)", data, got, err)
		}
		event, err := e.AppendSSE(nil)
		if err != nil || !bytes.HasSuffix(event, append([]byte("data: "), append(line, '\n')...)) || bytes.Count(event, []byte("\n")) != 4 {
			t.Fatalf("%q, %v", event, err)
		}
	})
}

func TestStreamEventShapes(t *testing.T) {
	code := 0
	for want, e := range map[string]StreamEvent{
		`{"type":"started","offset":0,"next":0,"session":{"sessionId":"x"}}`:                  {Type: StreamStarted, Session: json.RawMessage(`{"sessionId":"x"}`)},
		`{"type":"stdout","offset":2,"next":4,"binary":"//4="}`:                               OutputEvent(corral.Chunk{Stream: corral.Stdout, Offset: 2, Data: []byte("\xff\xfe")}),
		`{"type":"stderr","offset":0,"next":3,"text":"<b>"}`:                                  OutputEvent(corral.Chunk{Stream: corral.Stderr, Data: []byte("<b>")}),
		`{"type":"gap","offset":1,"next":9}`:                                                  {Type: StreamGap, Offset: 1, Next: 9},
		`{"type":"exit","offset":9,"next":9,"exitCode":0,"signal":null,"signalName":null}`:    {Type: StreamExit, Offset: 9, Next: 9, ExitStatus: &corral.ExitStatus{ExitCode: &code}},
		`{"type":"exit","offset":9,"next":9,"exitCode":null,"signal":null,"signalName":null}`: {Type: StreamExit, Offset: 9, Next: 9, ExitStatus: &corral.ExitStatus{}},
		`{"type":"pause","offset":4611686018427387904,"next":4611686018427387904}`:            {Type: StreamPaused, Offset: maxOffset, Next: maxOffset},
	} {
		line, err := e.AppendLine(nil)
		if err != nil || string(line) != want+"\n" {
			t.Errorf("%s, want %s (%v)", line, want, err)
		}
		if _, err := ParseStreamEvent(line); err != nil {
			t.Error(err)
		}
	}
	ping, err := StreamEvent{Type: StreamPing, Offset: 3, Next: 3}.AppendSSE(nil)
	if err != nil || string(ping) != ": nothing new\nid: 3\n\n" {
		t.Errorf("%q, %v", ping, err)
	}
	for _, bad := range []string{``, `[]`, `{"type":"stdout","offset":-1}`, `{"type":"stdout","offset":5,"next":4}`, `{"next":4611686018427387905}`} {
		if _, err := ParseStreamEvent([]byte(bad)); !errors.Is(err, ErrInternal) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestParseOffset(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "12": 12, "4611686018427387904": maxOffset, "": -1, "-1": -1, "+1": -1, " 1": -1, "1_0": -1, "0x1": -1,
		"4611686018427387905": -1, "18446744073709551616": -1, "１": -1,
	} {
		got, ok := ParseOffset(text)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
}
