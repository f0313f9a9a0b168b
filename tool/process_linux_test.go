package tool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// begin begins a command in the background.
func begin(t *testing.T, tools *Tools, command string, pty bool) string {
	t.Helper()
	r := tools.Exec(t.Context(), ExecRequest{Command: command, Background: true, PTY: pty})
	if r.SessionID == "" || r.Failed() {
		t.Fatalf("%+v", r)
	}
	return r.SessionID
}

// do does an action that must not fail.
func do(t *testing.T, tools *Tools, req ProcessRequest) ProcessResult {
	t.Helper()
	r := tools.Process(t.Context(), req)
	if r.Failed() || r.Action != req.Action || r.Warnings == nil {
		t.Fatalf("%+v: %+v", req, r)
	}
	return r
}

func wait(t *testing.T, tools *Tools, id string) ProcessResult {
	t.Helper()
	return do(t, tools, ProcessRequest{Action: ActionWait, SessionID: id})
}

func TestProcessLifeOfASession(t *testing.T) {
	tools := onHost(t, Config{AttachPath: func(id string) string { return "/sessions/" + id }})
	id := begin(t, tools, "cat; exit 3", false)

	if r := do(t, tools, ProcessRequest{Action: ActionPoll, SessionID: id}); r.Text() != "(no new output)\n\nProcess still running." || r.RetryInMs != 5000 {
		t.Errorf("%+v: %q", r, r.Text())
	}
	r := do(t, tools, ProcessRequest{Action: ActionWrite, SessionID: id, Data: "one\n"})
	if r.Text() != "Wrote 4 bytes to session "+id+"." || *r.BytesWritten != 4 || r.Status != StatusRunning {
		t.Errorf("%+v: %q", r, r.Text())
	}
	r = do(t, tools, ProcessRequest{Action: ActionPoll, SessionID: id, Timeout: ptr(10_000)})
	if r.Text() != "one\n\nProcess still running." || r.Output != "one\n" || r.Name == "" {
		t.Errorf("%+v: %q", r, r.Text())
	}
	list := do(t, tools, ProcessRequest{Action: ActionList})
	if len(list.Sessions) != 1 || list.Sessions[0].SessionID != id || list.Sessions[0].Status != StatusRunning || !list.Sessions[0].Background || list.Sessions[0].Command != "cat; exit 3" {
		t.Errorf("%+v", list)
	}
	if line := list.Text(); !strings.HasPrefix(line, id+" running   ") || !strings.Contains(line, " :: ") {
		t.Errorf("%q", line)
	}
	if r := do(t, tools, ProcessRequest{Action: ActionAttach, SessionID: id}); r.Path != "/sessions/"+id || !strings.Contains(r.Text(), r.Path) {
		t.Errorf("%+v", r)
	}
	if r := tools.Process(t.Context(), ProcessRequest{Action: ActionClear, SessionID: id}); !r.Failed() || !strings.HasPrefix(r.Text(), "No finished session found for "+id) {
		t.Errorf("%+v: %q", r, r.Text())
	}
	if r := tools.Process(t.Context(), ProcessRequest{Action: ActionResize, SessionID: id, Rows: ptr(5), Cols: ptr(6)}); r.Reason != ReasonUnsupported {
		t.Errorf("%+v: %q", r, r.Text())
	}
	r = do(t, tools, ProcessRequest{Action: ActionWrite, SessionID: id, EOF: true})
	if r.Text() != "Wrote 0 bytes to session "+id+" (stdin closed)." {
		t.Errorf("%q", r.Text())
	}
	if r := wait(t, tools, id); r.Met != "exit" || r.Status != StatusCompleted || *r.ExitCode != 3 || r.Text() != "one\n\nProcess exited with code 3." {
		t.Errorf("%+v: %q", r, r.Text())
	}
	if r := do(t, tools, ProcessRequest{Action: ActionPoll, SessionID: id}); r.Text() != "(no new output)\n\nProcess exited with code 3." || r.RetryInMs != 0 {
		t.Errorf("%+v: %q", r, r.Text())
	}
	for _, a := range []Action{ActionWrite, ActionSubmit, ActionPaste, ActionSendKeys, ActionKill} {
		r := tools.Process(t.Context(), ProcessRequest{Action: a, SessionID: id, Data: "x", Text: "x", Literal: "x"})
		if !r.Failed() || !strings.HasPrefix(r.Text(), "No active session found for "+id) || !strings.Contains(r.Text(), "has ended") {
			t.Errorf("%s: %+v: %q", a, r, r.Text())
		}
	}
	if r := do(t, tools, ProcessRequest{Action: ActionClear, SessionID: id}); r.Text() != "Cleared session "+id+"." {
		t.Errorf("%q", r.Text())
	}
	if r := do(t, tools, ProcessRequest{Action: ActionList}); r.Text() != "No running or recent sessions." {
		t.Errorf("%q", r.Text())
	}
}

func TestProcessTerminal(t *testing.T) {
	tools := onHost(t, Config{})
	id := begin(t, tools, `stty -echo; echo ready; read a; echo "got $a"; read b; stty size; read c; echo "pasted $c"; sleep 60`, true)
	until := func(pattern string) {
		t.Helper()
		r := do(t, tools, ProcessRequest{Action: ActionWait, SessionID: id, Pattern: pattern})
		if r.Met != "pattern" || !strings.Contains(r.Text(), "Found ") {
			t.Fatalf("%+v: %q", r, r.Text())
		}
	}
	until("ready")
	if r := do(t, tools, ProcessRequest{Action: ActionSendKeys, SessionID: id, Literal: "a", Hex: []string{"62"}, Keys: []string{"c", "Enter"}}); r.Text() != "Sent 4 bytes to session "+id+"." {
		t.Errorf("%q", r.Text())
	}
	until("got abc")
	if r := do(t, tools, ProcessRequest{Action: ActionResize, SessionID: id, Rows: ptr(12), Cols: ptr(34)}); !strings.Contains(r.Text(), "12 rows and 34 columns") {
		t.Errorf("%q", r.Text())
	}
	if r := do(t, tools, ProcessRequest{Action: ActionSubmit, SessionID: id}); !strings.HasPrefix(r.Text(), "Submitted session "+id) {
		t.Errorf("%q", r.Text())
	}
	until("12 34")
	do(t, tools, ProcessRequest{Action: ActionPaste, SessionID: id, Text: "text", Bracketed: ptr(false)})
	do(t, tools, ProcessRequest{Action: ActionSubmit, SessionID: id})
	until("pasted text")
	if r := do(t, tools, ProcessRequest{Action: ActionSendKeys, SessionID: id, Keys: []string{"C-nonsense"}}); len(r.Warnings) == 0 || !strings.HasPrefix(r.Text(), "Warning: ") {
		t.Errorf("%+v", r)
	}
	r := do(t, tools, ProcessRequest{Action: ActionRemove, SessionID: id})
	if r.Text() != "Removed session "+id+" (termination requested)." || r.Reason != ReasonKilled {
		t.Errorf("%+v: %q", r, r.Text())
	}
	if r := tools.Process(t.Context(), ProcessRequest{Action: ActionPoll, SessionID: id}); !r.Failed() {
		t.Errorf("%+v", r)
	}
}

// Who answers a prompt and waits for the next one is not shown the old one.
func TestProcessAnswers(t *testing.T) {
	tools := onHost(t, Config{})
	id := begin(t, tools, `stty -echo; echo ready; while printf '> '; read a; do sleep 0.2; echo "got $a"; done`, true)
	wait := func(req ProcessRequest, met, last string) {
		t.Helper()
		req.Action, req.SessionID = ActionWait, id
		r := do(t, tools, req)
		if r.Met != met || !strings.HasSuffix(strings.TrimSpace(r.Output), last) {
			t.Errorf("met %q, want %q: %q, want %q at the end", r.Met, met, r.Output, last)
		}
	}
	give := func(req ProcessRequest) {
		t.Helper()
		req.SessionID = id
		if r := do(t, tools, req); r.Failed() {
			t.Fatalf("%+v", r)
		}
	}
	wait(ProcessRequest{Pattern: "> $"}, "pattern", ">")
	wait(ProcessRequest{Pattern: "ready"}, "pattern", ">") // nothing was answered since
	give(ProcessRequest{Action: ActionWrite, Data: "one\n"})
	wait(ProcessRequest{Pattern: "> $"}, "pattern", "got one\r\n>")
	give(ProcessRequest{Action: ActionSendKeys, Literal: "two"})
	give(ProcessRequest{Action: ActionSubmit})
	wait(ProcessRequest{Pattern: "> $"}, "pattern", "got two\r\n>")
	wait(ProcessRequest{Pattern: "got one", Timeout: ptr(100)}, "", ">")
	// Several inputs in a row are one.
	give(ProcessRequest{Action: ActionWrite, Data: "three\n"})
	time.Sleep(500 * time.Millisecond)
	give(ProcessRequest{Action: ActionWrite, Data: "four\n"})
	wait(ProcessRequest{Pattern: "got three"}, "pattern", "")
	wait(ProcessRequest{Pattern: "got four"}, "pattern", "")
	time.Sleep(500 * time.Millisecond)
	give(ProcessRequest{Action: ActionWrite, Data: "five\n"})
	if r := do(t, tools, ProcessRequest{Action: ActionWait, SessionID: id, Until: UntilOutput}); r.Met != "output" || !strings.Contains(r.Output, "got five") {
		t.Errorf("%+v: %q", r, r.Output)
	}
	do(t, tools, ProcessRequest{Action: ActionRemove, SessionID: id})
}

func TestProcessKill(t *testing.T) {
	tools := onHost(t, Config{})
	id := begin(t, tools, "sleep 60", false)
	r := do(t, tools, ProcessRequest{Action: ActionKill, SessionID: id})
	if r.Status != StatusFailed || r.Reason != ReasonKilled || *r.SignalName != "SIGTERM" {
		t.Errorf("%+v", r)
	}
	if want := "Termination requested for session " + id + ".\n\nProcess exited with signal SIGTERM (killed on request)."; r.Text() != want {
		t.Errorf("%q", r.Text())
	}
	list := do(t, tools, ProcessRequest{Action: ActionList})
	if !strings.Contains(list.Text(), " failed    ") || !strings.HasSuffix(list.Text(), "[signal SIGTERM, killed]") {
		t.Errorf("%q", list.Text())
	}
}

func TestProcessWait(t *testing.T) {
	tools := onHost(t, Config{})
	id := begin(t, tools, "read a; echo $a; sleep 60", false)
	r := do(t, tools, ProcessRequest{Action: ActionWait, SessionID: id, Timeout: ptr(50)})
	if r.Met != "" || r.Status != StatusRunning || !strings.Contains(r.Text(), "Nothing of what was waited for") {
		t.Errorf("%+v: %q", r, r.Text())
	}
	soon, cancelSoon := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancelSoon()
	if r := tools.Process(soon, ProcessRequest{Action: ActionWait, SessionID: id, Timeout: ptr(0)}); r.Status != StatusRunning || r.Error != "" {
		t.Errorf("no time to wait: %+v", r)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("enough")) })
	if r := tools.Process(ctx, ProcessRequest{Action: ActionWait, SessionID: id}); r.Reason != ReasonCancelled || r.Error != "enough" {
		t.Errorf("%+v", r)
	}
	do(t, tools, ProcessRequest{Action: ActionWrite, SessionID: id, Data: "hello\n"})
	if r := do(t, tools, ProcessRequest{Action: ActionWait, SessionID: id, Until: UntilOutput}); r.Met != "output" || r.Output != "hello\n" {
		t.Errorf("%+v", r)
	}
	if r := do(t, tools, ProcessRequest{Action: ActionWait, SessionID: id, Until: UntilOutput, Timeout: ptr(700_000)}); r.Met != "output" || len(r.Warnings) != 1 {
		t.Errorf("a wait takes nothing from the next: %+v", r)
	}
	for _, req := range []ProcessRequest{
		{Pattern: "("}, {Until: UntilPattern}, {Until: "doomsday"}, {Timeout: ptr(-1)}, {Pattern: strings.Repeat("x", maxPattern+1)},
	} {
		req.Action, req.SessionID = ActionWait, id
		if r := tools.Process(t.Context(), req); r.Reason != ReasonInvalid || r.Text() == "" {
			t.Errorf("%+v: %+v", req, r)
		}
	}
}

func TestProcessRefuses(t *testing.T) {
	tools := onHost(t, Config{})
	id := begin(t, tools, "sleep 60", false)
	fg := tools.Exec(t.Context(), ExecRequest{Command: "sleep 60", YieldMs: ptr(10)}).SessionID
	for _, tc := range []struct {
		req  ProcessRequest
		text string
	}{
		{ProcessRequest{}, "action is required. Use one of the actions: list, poll, log, wait,"},
		{ProcessRequest{Action: "dance"}, "Unknown action dance"},
		{ProcessRequest{Action: ActionPoll}, "sessionId is required for this action."},
		{ProcessRequest{Action: ActionSendKeys, SessionID: id}, "No key data provided."},
		{ProcessRequest{Action: ActionPaste, SessionID: id}, "No paste text provided."},
		{ProcessRequest{Action: ActionWrite, SessionID: id}, "No data provided. Give data, or eof=true."},
		{ProcessRequest{Action: ActionLog, SessionID: id, Offset: ptr(-1)}, "offset: -1 is negative."},
		{ProcessRequest{Action: ActionResize, SessionID: id, Rows: ptr(0), Cols: ptr(1)}, "rows is missing or no size"},
		{ProcessRequest{Action: ActionAttach, SessionID: id}, "sessions cannot be attached to here"},
		{ProcessRequest{Action: ActionWrite, SessionID: fg, Data: "x"}, "Session " + fg + " stdin is not writable."},
	} {
		r := tools.Process(t.Context(), tc.req)
		if !r.Failed() || r.Status != StatusFailed || !strings.HasPrefix(r.Text(), tc.text) {
			t.Errorf("%+v: %+v: %q, want %q", tc.req, r, r.Text(), tc.text)
		}
	}
	// Written as by a model.
	if r := tools.Process(t.Context(), ProcessRequest{Action: " LIST "}); r.Failed() || r.Action != ActionList {
		t.Errorf("%+v", r)
	}
}

func TestProcessLogIsBounded(t *testing.T) {
	tools := onHost(t, Config{MaxOutput: 1000})
	id := begin(t, tools, "head -c 100000 /dev/zero | tr '\\0' x; printf '\\033[31mred\\033[0m'", false)
	wait(t, tools, id)
	r := do(t, tools, ProcessRequest{Action: ActionLog, SessionID: id})
	if !r.Truncated || len(r.Text()) > 1200 || !strings.Contains(r.Text(), "bytes left out") || !strings.Contains(r.Output, "xred") {
		t.Errorf("%d bytes: %.100q … %q", len(r.Text()), r.Text(), r.Text()[max(0, len(r.Text())-200):])
	}
	if p := do(t, tools, ProcessRequest{Action: ActionPoll, SessionID: id}); !p.Truncated || len(p.Output) > 1200 {
		t.Errorf("%d bytes", len(p.Output))
	}
}

// A command that does not read its input does not block a call for ever.
func TestProcessWriteIsBounded(t *testing.T) {
	tools := onHost(t, Config{})
	tools.inputLimit = 50 * time.Millisecond
	id := begin(t, tools, "sleep 60", false)
	r := tools.Process(t.Context(), ProcessRequest{Action: ActionWrite, SessionID: id, Data: strings.Repeat("x", 1<<20)})
	if r.Reason != ReasonUnavailable || r.BytesWritten == nil || *r.BytesWritten == 0 || *r.BytesWritten >= 1<<20 || !strings.Contains(r.Text(), "does not read its input") {
		t.Errorf("%+v: %q", r, r.Text())
	}
}

func TestProcessListIsBounded(t *testing.T) {
	tools := onHost(t, Config{})
	begin(t, tools, "sleep 60 # "+strings.Repeat("x", 100_000), false)
	r := do(t, tools, ProcessRequest{Action: ActionList})
	if n := len(r.Sessions[0].Command); n > maxListed+100 || n < maxListed {
		t.Errorf("%d bytes", n)
	}
}

func TestProcessOfAnotherAgent(t *testing.T) {
	m := sessions(t, host(t))
	id := begin(t, New(Config{Agent: m.Agent("one")}), "sleep 60", false)
	other := New(Config{Agent: m.Agent("another")})
	if r := other.Process(t.Context(), ProcessRequest{Action: ActionKill, SessionID: id}); r.Text() != "No active session found for "+id {
		t.Errorf("%q", r.Text())
	}
	if r := other.Process(t.Context(), ProcessRequest{Action: ActionList}); len(r.Sessions) != 0 {
		t.Errorf("%+v", r)
	}
}
