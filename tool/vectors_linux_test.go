package tool

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// vector is a line of testdata/openclaw.jsonl: an answer of another implementation of
// these tools.
type vector struct {
	ID    string
	Fn    string
	Input struct {
		Lines         int
		Offset, Limit *int
		Polls         int `json:"consecutive_empty_polls"`
		Action        Action
		SessionID     string
		ExitCode      int
		Aggregated    string
		TimeoutSec    float64
	}
	Expect struct {
		LinesReturned *int `json:"lines_returned"`
		From          int
		Text          string
		RetryInMs     int64
		Status        Status
		ExitCode      *int
		Contains      []string
	}
}

func TestVectors(t *testing.T) {
	f, err := os.Open("testdata/openclaw.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		t.Run(v.ID, func(t *testing.T) { v.check(t, onHost(t, Config{})) })
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func (v vector) check(t *testing.T, tools *Tools) {
	in, want := v.Input, v.Expect
	switch v.Fn {
	case "log_slice":
		id := begin(t, tools, fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); echo line $i; done", in.Lines), false)
		wait(t, tools, id)
		r := do(t, tools, ProcessRequest{Action: ActionLog, SessionID: id, Offset: in.Offset, Limit: in.Limit})
		if want.LinesReturned == nil { // one of several texts
			if !strings.Contains("|"+want.Text+"|", "|"+r.Text()+"|") {
				t.Errorf("%q", r.Text())
			}
			return
		}
		if r.Lines != *want.LinesReturned || r.Offset != want.From-1 || !strings.HasPrefix(r.Text(), fmt.Sprintf("line %d\n", want.From)) {
			t.Errorf("%+v: %.40q", r.LogPage, r.Text())
		}
	case "poll_backoff":
		id := begin(t, tools, "sleep 60", false)
		var r ProcessResult
		for range in.Polls {
			r = do(t, tools, ProcessRequest{Action: ActionPoll, SessionID: id})
		}
		if r.RetryInMs != want.RetryInMs {
			t.Errorf("%d ms", r.RetryInMs)
		}
	case "unknown_session":
		r := tools.Process(t.Context(), ProcessRequest{Action: in.Action, SessionID: in.SessionID, Data: "x"})
		if r.Status != want.Status || r.Text() != want.Text {
			t.Errorf("%+v: %q", r, r.Text())
		}
	case "exit":
		r := tools.Exec(t.Context(), ExecRequest{Command: fmt.Sprintf("echo '%s'; exit %d", in.Aggregated, in.ExitCode)})
		if in.ExitCode == 126 || in.ExitCode == 127 {
			want.Status, want.ExitCode = StatusCompleted, &in.ExitCode // a code is a code
		}
		if r.Status != want.Status || *r.ExitCode != *want.ExitCode || want.Text != "" && r.Text() != want.Text {
			t.Errorf("%+v: %q", r, r.Text())
		}
	case "timeout_text":
		text := whyTimeout(in.TimeoutSec)
		for _, s := range want.Contains {
			if !strings.Contains(text, s) {
				t.Errorf("there is no %q in %q", s, text)
			}
		}
	default:
		t.Fatalf("nothing here does %s", v.Fn)
	}
}

// whyTimeout is the text for a time-out, without waiting for it.
func whyTimeout(limit float64) string {
	text, hint := timedOut(time.Duration(limit * float64(time.Second)))
	return sentences(text, hint)
}
