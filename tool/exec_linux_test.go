package tool

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

func TestExecCompleted(t *testing.T) {
	tools := onHost(t, Config{})
	for _, tc := range []struct {
		name string
		req  ExecRequest
		want Ended
		text string
	}{
		{"success", ExecRequest{Command: "echo hello"},
			Ended{ExitStatus: corral.ExitStatus{ExitCode: ptr(0)}, Stdout: "hello\n", Output: "hello\n", OutputBytes: 6}, "hello"},
		{"nothing", ExecRequest{Command: "true"}, Ended{ExitStatus: corral.ExitStatus{ExitCode: ptr(0)}}, "(no output)"},
		{"a code", ExecRequest{Command: "echo done; echo bad >&2; exit 3"},
			Ended{ExitStatus: corral.ExitStatus{ExitCode: ptr(3)}, Stdout: "done\n", Stderr: "bad\n", OutputBytes: 9}, ""},
		{"a code and no output", ExecRequest{Command: "exit 1"}, Ended{ExitStatus: corral.ExitStatus{ExitCode: ptr(1)}}, "(no output)\n\n(Command exited with code 1)"},
		{"a signal", ExecRequest{Command: "kill -9 $$"},
			Ended{ExitStatus: corral.ExitStatus{Signal: ptr(9), SignalName: ptr("SIGKILL")}}, "(no output)\n\n(Command aborted by signal SIGKILL)"},
		{"not executable", ExecRequest{Command: "exec /etc/passwd 2>/dev/null"}, Ended{ExitStatus: corral.ExitStatus{ExitCode: ptr(126)}}, "(no output)\n\n(Command exited with code 126)"},
		{"on a terminal", ExecRequest{Command: "test -t 1 && printf '\\033[31mred\\033[0m'; exit 0", PTY: true},
			Ended{ExitStatus: corral.ExitStatus{ExitCode: ptr(0)}, Stdout: "red", Output: "red", OutputBytes: 12}, "red"},
		{"input is at its end", ExecRequest{Command: "cat; echo end"},
			Ended{ExitStatus: corral.ExitStatus{ExitCode: ptr(0)}, Stdout: "end\n", Output: "end\n", OutputBytes: 4}, "end"},
		{"env", ExecRequest{Command: "echo $A", Env: map[string]string{"A": "b c"}},
			Ended{ExitStatus: corral.ExitStatus{ExitCode: ptr(0)}, Stdout: "b c\n", Output: "b c\n", OutputBytes: 4}, "b c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := tools.Exec(t.Context(), tc.req)
			if r.Status != StatusCompleted || r.SessionID != "" || r.Failed() || r.Host != corral.HostGateway || r.Cwd == "" {
				t.Fatalf("%+v", r)
			}
			ignore := cmpopts.IgnoreFields(Ended{}, "DurationMs")
			if tc.want.Stdout != "" && tc.want.Stderr != "" {
				tc.want.Output = r.Output // the order is the scheduler's
			}
			if d := cmp.Diff(tc.want, *r.Ended, ignore); d != "" {
				t.Error(d)
			}
			if tc.text != "" && r.Text() != tc.text {
				t.Errorf("%q, want %q", r.Text(), tc.text)
			}
		})
	}
	if list := tools.Process(t.Context(), ProcessRequest{Action: ActionList}); len(list.Sessions) != 0 {
		t.Errorf("there are sessions of commands that ended in the foreground: %+v", list.Sessions)
	}
}

// The JSON of a completed command always has these fields.
func TestExecJSON(t *testing.T) {
	r := onHost(t, Config{}).Exec(t.Context(), ExecRequest{Command: "kill -15 $$"})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"status", "exitCode", "signal", "signalName", "stdout", "stderr", "output", "durationMs",
		"host", "sandboxed", "cwd", "truncated", "outputBytes", "warnings",
	} {
		if _, ok := fields[name]; !ok {
			t.Errorf("there is no %s in %s", name, text)
		}
	}
	if fields["exitCode"] != nil || fields["signal"] != 15.0 || fields["signalName"] != "SIGTERM" {
		t.Errorf("%s", text)
	}
}

func TestExecTimeout(t *testing.T) {
	tools := onHost(t, Config{})
	r := tools.Exec(t.Context(), ExecRequest{Command: "echo before; sleep 60", Timeout: ptr(0.2)})
	if r.Status != StatusFailed || r.Reason != ReasonTimeout || r.Output != "before\n" || r.SignalName == nil || !r.Failed() {
		t.Fatalf("%+v", r)
	}
	if !strings.HasPrefix(r.Text(), "before\n\nCommand timed out after 0.2 seconds; its process tree was killed.") {
		t.Error(r.Text())
	}
	// A time-out applies in the background too.
	r = tools.Exec(t.Context(), ExecRequest{Command: "sleep 60", TimeoutSeconds: ptr(0.2), Background: true})
	if r.Status != StatusRunning {
		t.Fatalf("%+v", r)
	}
	w := tools.Process(t.Context(), ProcessRequest{Action: ActionWait, SessionID: r.SessionID})
	if w.Status != StatusFailed || w.Reason != ReasonTimeout || w.Met != "exit" || w.Failed() {
		t.Errorf("%+v", w)
	}
}

func TestExecYields(t *testing.T) {
	tools := onHost(t, Config{})
	r := tools.Exec(t.Context(), ExecRequest{Command: "echo begun; sleep 60", YieldMs: ptr(300)})
	if r.Status != StatusRunning || r.Running == nil || r.PID == 0 || r.StartedAt.IsZero() || r.Tail != "begun\n" || r.Ended != nil || r.Cwd == "" {
		t.Fatalf("%+v", r)
	}
	want := regexp.MustCompile(`^begun\n\nCommand still running \(session ` + regexp.QuoteMeta(r.SessionID) + `, pid \d+\)\. Use process \(list/poll/log/write/kill/clear/remove\) for follow-up\.$`)
	if !want.MatchString(r.Text()) {
		t.Errorf("%q", r.Text())
	}
	if k := tools.Process(t.Context(), ProcessRequest{Action: ActionKill, SessionID: r.SessionID}); k.Status != StatusFailed || k.Failed() {
		t.Errorf("%+v", k)
	}
}

func TestExecCancelled(t *testing.T) {
	tools := onHost(t, Config{})
	dir := t.TempDir()
	mark := filepath.Join(dir, "begun")

	ctx, cancel := context.WithCancelCause(t.Context())
	results := make(chan ExecResult)
	go func() { results <- tools.Exec(ctx, ExecRequest{Command: "echo x; touch " + mark + "; sleep 60"}) }()
	for { // until the command runs
		if _, err := os.Stat(mark); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	cancel(errors.New("the turn is over"))
	r := <-results
	if r.Status != StatusFailed || r.Reason != ReasonCancelled || r.Output != "x\n" || r.SignalName == nil {
		t.Fatalf("%+v", r)
	}
	if want := "x\n\nCommand cancelled (the turn is over); its process tree was killed."; r.Text() != want {
		t.Errorf("%q", r.Text())
	}

	// A command in the background goes on.
	ctx, cancel = context.WithCancelCause(t.Context())
	r = tools.Exec(ctx, ExecRequest{Command: "cat", Background: true})
	cancel(errors.New("the turn is over"))
	p := tools.Process(t.Context(), ProcessRequest{Action: ActionWrite, SessionID: r.SessionID, Data: "still here\n", EOF: true})
	if p.Failed() {
		t.Fatalf("%+v", p)
	}
	w := tools.Process(t.Context(), ProcessRequest{Action: ActionWait, SessionID: r.SessionID})
	if w.Status != StatusCompleted || w.Output != "still here\n" {
		t.Errorf("%+v", w)
	}
}

func TestExecTruncated(t *testing.T) {
	tools := onHost(t, Config{MaxOutput: 100})
	r := tools.Exec(t.Context(), ExecRequest{Command: "i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i+1)); done; exit 4"})
	if r.Status != StatusCompleted || !r.Truncated || r.SessionID == "" || r.OutputBytes != 790 || *r.ExitCode != 4 {
		t.Fatalf("%+v", r)
	}
	for _, want := range []string{"line 0\n", "line 99\n", "bytes left out", "(Command exited with code 4)", "process log, session " + r.SessionID} {
		if !strings.Contains(r.Text(), want) {
			t.Errorf("there is no %q in %q", want, r.Text())
		}
	}
	log := tools.Process(t.Context(), ProcessRequest{Action: ActionLog, SessionID: r.SessionID, Offset: ptr(50), Limit: ptr(2)})
	if log.Text() != "line 50\nline 51" || log.TotalLines != 100 {
		t.Errorf("%+v: %q", log, log.Text())
	}
}

func TestExecSameID(t *testing.T) {
	tools := onHost(t, Config{})
	count := filepath.Join(t.TempDir(), "count")
	req := ExecRequest{Command: "echo once >>" + count + "; echo ran", SessionID: "my-build"}
	for range 2 {
		r := tools.Exec(t.Context(), req)
		if r.Status != StatusCompleted || r.SessionID != "my-build" || r.Output != "ran\n" {
			t.Fatalf("%+v", r)
		}
	}
	if text, err := os.ReadFile(count); err != nil || string(text) != "once\n" {
		t.Errorf("it ran again: %q, %v", text, err)
	}
	req.Command = "echo other"
	if r := tools.Exec(t.Context(), req); r.Status != StatusFailed || r.Reason != ReasonConflict {
		t.Errorf("%+v", r)
	}
	if r := tools.Exec(t.Context(), ExecRequest{Command: "true", SessionID: "no/id"}); r.Reason != ReasonInvalid {
		t.Errorf("%+v", r)
	}
}

func noProcess(name string) error {
	if name == ProcessName {
		return corral.Errorf(corral.ErrDenied, "remove it from tools.deny", "process is denied")
	}
	return nil
}

func TestProcessDenied(t *testing.T) {
	tools := onHost(t, Config{Allowed: noProcess, Defaults: Defaults{Yield: MinYield}})
	const warning = "Background execution is disabled; running synchronously."
	for _, req := range []ExecRequest{
		{Command: "sleep 0.3; echo end", Background: true}, {Command: "sleep 0.3; echo end", YieldMs: ptr(10)}, {Command: "sleep 0.3; echo end"},
	} {
		r := tools.Exec(t.Context(), req)
		want := []string{warning}
		if !req.Background && req.YieldMs == nil {
			want = []string{}
		}
		if d := cmp.Diff(want, r.Warnings); r.Status != StatusCompleted || r.Output != "end\n" || d != "" {
			t.Errorf("%+v: %s", r, d)
		}
		if len(want) > 0 && r.Text() != "Warning: "+warning+"\n\nend" {
			t.Errorf("%q", r.Text())
		}
	}
	if p := tools.Process(t.Context(), ProcessRequest{Action: ActionList}); p.Status != StatusDenied || !p.Failed() {
		t.Errorf("%+v", p)
	}
	if defs := tools.Definitions(); len(defs) != 1 || defs[0].Name != ExecName {
		t.Errorf("%d definitions", len(defs))
	}
}

func TestExecRefuses(t *testing.T) {
	tools := onHost(t, Config{})
	for _, tc := range []struct {
		req    ExecRequest
		reason Reason
		text   string
	}{
		{ExecRequest{Command: " \n"}, ReasonInvalid, "Provide a command to start."},
		{ExecRequest{Command: "ls", Host: "mars"}, ReasonInvalid, `host: there is no "mars". Use sandbox, gateway, node.`},
		{ExecRequest{Command: "ls", Security: "strict"}, ReasonInvalid, `security: there is no "strict". Use deny, allowlist, full.`},
		{ExecRequest{Command: "ls", Ask: "never"}, ReasonInvalid, `ask: there is no "never". Use always, on-miss, off.`},
		{ExecRequest{Command: "ls", Timeout: ptr(1.0), TimeoutSeconds: ptr(2.0)}, ReasonInvalid, "timeout is 1 and timeoutSeconds is 2. Give one of them."},
		{ExecRequest{Command: "ls", Timeout: ptr(1e9)}, ReasonInvalid, "timeout: 1e+09 is no time-out. Give at most 31536000 seconds, or 0 for none."},
		{ExecRequest{Command: "ls", Timeout: ptr(-1.0)}, ReasonInvalid, "timeout: -1 is negative. 0 means no time-out."},
		{ExecRequest{Command: "ls", TimeoutSeconds: ptr(-1e-12)}, ReasonInvalid, "timeoutSeconds: -1e-12 is negative. 0 means no time-out."},
		{ExecRequest{Command: "ls", Timeout: ptr(math.Inf(-1))}, ReasonInvalid, "timeout: -Inf is negative."},
		{ExecRequest{Command: "ls", Workdir: "/no/such/place"}, ReasonWorkdir, "/no/such/place"},
	} {
		r := tools.Exec(t.Context(), tc.req)
		if r.Status != StatusFailed || r.Reason != tc.reason || !strings.Contains(r.Text(), tc.text) || r.Ended == nil || r.ExitCode != nil {
			t.Errorf("%+v: %q, want %q", r, r.Text(), tc.text)
		}
	}
}

func TestExecUnknown(t *testing.T) {
	ex := &fakeexec.Executor{
		Programs: map[string]fakeexec.Program{"work": fakeexec.Print("some\n", "", 0)},
		Fault: func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpWait {
				return corral.Errorf(corral.ErrLost, "", "the machine lost power")
			}
			return nil
		},
	}
	closing(t, ex)
	tools := over(t, ex, Config{})
	r := tools.Exec(t.Context(), ExecRequest{Command: "work"})
	if r.Status != StatusUnknown || r.Reason != ReasonLost || r.Ended == nil || r.ExitCode != nil || r.Signal != nil || r.SessionID == "" || !r.Failed() {
		t.Fatalf("%+v", r)
	}
	if !strings.Contains(r.Text(), "It is not known") || !strings.Contains(r.Text(), "lost power") {
		t.Error(r.Text())
	}
}

// If it is not known whether a command began, its session can be looked up.
func TestExecStartLost(t *testing.T) {
	ex := &fakeexec.Executor{
		Programs: map[string]fakeexec.Program{"work": fakeexec.Print("some\n", "", 0)},
		Fault: func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpStarted {
				return corral.Errorf(corral.ErrLost, "", "the connection broke")
			}
			return nil
		},
	}
	closing(t, ex)
	tools := over(t, ex, Config{})
	r := tools.Exec(t.Context(), ExecRequest{Command: "work"})
	if r.Status != StatusUnknown || r.SessionID == "" {
		t.Fatalf("%+v", r)
	}
	if w := wait(t, tools, r.SessionID); w.Status != StatusCompleted {
		t.Errorf("%+v", w)
	}
}

func TestProgress(t *testing.T) {
	tools := onHost(t, Config{})
	seen := make(chan Progress, 1000)
	ctx := WithProgress(t.Context(), 20*time.Millisecond, func(p Progress) { seen <- p })
	r := tools.Exec(ctx, ExecRequest{Command: "echo working; sleep 0.5"})
	close(seen) // no more calls
	if r.Status != StatusCompleted || len(seen) == 0 {
		t.Fatalf("%d looks, %+v", len(seen), r)
	}
	var last Progress
	for p := range seen {
		if p.Elapsed < last.Elapsed || p.OutputBytes < last.OutputBytes {
			t.Errorf("%+v after %+v", p, last)
		}
		last = p
	}
	if last.Tail != "working\n" || last.OutputBytes != 8 || last.SessionID == "" || last.Elapsed <= 0 {
		t.Errorf("%+v", last)
	}
}

// No progress is shown after the call has returned.
func TestProgressEndsWithTheCall(t *testing.T) {
	tools := onHost(t, Config{})
	var showing atomic.Bool
	ctx := WithProgress(t.Context(), time.Millisecond, func(Progress) {
		showing.Store(true)
		time.Sleep(20 * time.Millisecond)
		showing.Store(false)
	})
	tools.Exec(ctx, ExecRequest{Command: "sleep 0.1"})
	if showing.Load() {
		t.Error("it goes on")
	}
}

// slowStart cancels the call during a start. If the start is then given up, it is not known
// whether the command runs.
type slowStart struct {
	corral.Executor
	cancel func()
}

func (s slowStart) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	s.cancel()
	select {
	case <-ctx.Done():
		return nil, corral.Errorf(corral.ErrLost, "", "nobody knows")
	case <-time.After(50 * time.Millisecond):
		return s.Executor.Start(ctx, cmd)
	}
}

func TestExecCancelledAtTheStart(t *testing.T) {
	ex := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"work": fakeexec.Sleep}}
	closing(t, ex)
	ctx, cancel := context.WithCancel(t.Context())
	tools := over(t, slowStart{ex, cancel}, Config{})
	if r := tools.Exec(ctx, ExecRequest{Command: "work"}); r.Reason != ReasonCancelled || r.SignalName == nil {
		t.Errorf("%+v", r)
	}
	if r := tools.Exec(ctx, ExecRequest{Command: "work"}); r.Reason != ReasonCancelled || ex.Starts() != 1 {
		t.Errorf("%d starts, %+v", ex.Starts(), r)
	}
}

func TestNotifyOnExit(t *testing.T) {
	m := sessions(t, host(t))
	tools := New(Config{Agent: m.Agent("main")})
	quiet := tools.Exec(t.Context(), ExecRequest{Command: "cat", Background: true, NotifyOnExit: ptr(false)}).SessionID
	loud := tools.Exec(t.Context(), ExecRequest{Command: "cat", Background: true}).SessionID
	for _, id := range []string{quiet, loud} {
		do(t, tools, ProcessRequest{Action: ActionWrite, SessionID: id, EOF: true})
	}
	got, err := m.Events(t.Context(), "main", 0)
	if err != nil || len(got.Events) != 1 || got.Events[0].SessionID != loud {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCall(t *testing.T) {
	tools := onHost(t, Config{})
	r, err := tools.Call(t.Context(), "exec", json.RawMessage(`{"command":"echo a","timeout":"5","colour":1}`))
	if err != nil || r.Failed() || r.Text() != "Warning: The parameter \"colour\" is not known and is ignored.\n\na" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := tools.Call(t.Context(), "exec", json.RawMessage(`{"command":[]}`)); err != nil || !r.Failed() || r.Text() != "command: [] does not fit. Give a string." {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := tools.Call(t.Context(), "process", json.RawMessage(`{"action":"list"}`)); err != nil || r.Text() != "No running or recent sessions." {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := tools.Call(t.Context(), "process", json.RawMessage(`7`)); err != nil || !r.Failed() {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := tools.Call(t.Context(), "bash", nil); !errors.Is(err, corral.ErrNotFound) {
		t.Error(err)
	}
}
