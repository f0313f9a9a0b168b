package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/tool"
)

func TestNewResult(t *testing.T) {
	began := time.Unix(100, 0)
	exit := func(code int, s corral.Signal, why corral.Reason) corral.Exit {
		return corral.Exit{Code: code, Signal: s, Reason: why, StartedAt: began, EndedAt: began.Add(1500 * time.Millisecond)}
	}
	number := func(n int) *int { return &n }
	name := func(s string) *string { return &s }
	hinted := corral.Errorf(corral.ErrUnavailable, "start it", "no engine\nanswers")
	for _, tc := range []struct {
		name string
		run  runner.Result
		err  error
		want Result
	}{
		{"completed", runner.Result{
			Exit:     exit(3, 0, corral.ReasonExited),
			Info:     corral.Info{Host: corral.HostNode, Node: "n1", Sandboxed: true, Dir: "/w", Warnings: []string{"W."}},
			Excerpts: runner.Excerpts{Stdout: runner.Excerpt{Head: "o"}, Stderr: runner.Excerpt{Head: "e"}, Output: runner.Excerpt{Head: "oe"}},
		}, nil, Result{
			Status: tool.StatusCompleted, Host: "node", Node: "n1", Sandboxed: true, Cwd: "/w", Warnings: []string{"W."}, Ended: tool.Ended{ExitStatus: corral.ExitStatus{ExitCode: number(3)}, DurationMs: 1500, Stdout: "o", Stderr: "e", Output: "oe", OutputBytes: 2},
		}},
		{"signal", runner.Result{Exit: exit(-1, corral.SIGKILL, corral.ReasonExited)}, nil, Result{
			Status: tool.StatusCompleted, Ended: tool.Ended{ExitStatus: corral.ExitStatus{Signal: number(9), SignalName: name("SIGKILL")}, DurationMs: 1500},
		}},
		{"timeout", runner.Result{Exit: exit(-1, corral.SIGTERM, corral.ReasonTimeout)}, nil, Result{
			Status: tool.StatusFailed, Reason: tool.ReasonTimeout, Error: "timed out, signal SIGTERM (15)", Ended: tool.Ended{ExitStatus: corral.ExitStatus{Signal: number(15), SignalName: name("SIGTERM")}, DurationMs: 1500},
		}},
		{"out of memory", runner.Result{Exit: exit(-1, corral.SIGKILL, corral.ReasonOOM)}, nil, Result{
			Status: tool.StatusFailed, Reason: tool.ReasonOOM, Error: "out of memory, signal SIGKILL (9)", Ended: tool.Ended{ExitStatus: corral.ExitStatus{Signal: number(9), SignalName: name("SIGKILL")}, DurationMs: 1500},
		}},
		{"timeout, and it exited by itself", runner.Result{Exit: exit(0, 0, corral.ReasonTimeout)}, nil, Result{
			Status: tool.StatusFailed, Reason: tool.ReasonTimeout, Error: "timed out, exit code 0", Ended: tool.Ended{ExitStatus: corral.ExitStatus{ExitCode: number(0)}, DurationMs: 1500},
		}},
		{"cut", runner.Result{Exit: exit(0, 0, corral.ReasonExited), Excerpts: runner.Excerpts{Output: runner.Excerpt{Head: "ab", Tail: "yz", Omitted: 96}}}, nil, Result{
			Status: tool.StatusCompleted, Ended: tool.Ended{ExitStatus: corral.ExitStatus{ExitCode: number(0)}, DurationMs: 1500, Truncated: true, OutputBytes: 100, Output: "ab\n[… 96 bytes left out …]\nyz"},
		}},
		{"not started", runner.Result{}, hinted, Result{
			Status: tool.StatusFailed, Reason: tool.ReasonUnavailable, Error: "no engine; answers", Hint: "start it", Ended: tool.Ended{DurationMs: 7},
		}},
		// What is not known is not made up, and what there is of it is kept.
		{"lost", runner.Result{Info: corral.Info{Host: corral.HostGateway}, Excerpts: runner.Excerpts{Output: runner.Excerpt{Head: "x"}}}, fmt.Errorf("gone: %w", corral.ErrLost), Result{
			Status: tool.StatusUnknown, Reason: tool.ReasonLost, Error: "gone: lost", Host: "gateway", Ended: tool.Ended{Output: "x", OutputBytes: 1, DurationMs: 7},
		}},
		{"cancelled", runner.Result{Exit: exit(-1, corral.SIGTERM, corral.ReasonExited)}, foreground.Interruption{Signal: corral.SIGINT}, Result{
			Status: tool.StatusFailed, Reason: tool.ReasonCancelled, Error: "interrupted by SIGINT", Ended: tool.Ended{ExitStatus: corral.ExitStatus{Signal: number(15), SignalName: name("SIGTERM")}, DurationMs: 1500},
		}},
		// The clock of a node may be set back while a command runs.
		{"time runs backwards", runner.Result{Exit: corral.Exit{Reason: corral.ReasonExited, StartedAt: began, EndedAt: began.Add(-time.Hour)}}, nil, Result{
			Status: tool.StatusCompleted, Ended: tool.Ended{ExitStatus: corral.ExitStatus{ExitCode: number(0)}, DurationMs: 7},
		}},
	} {
		if tc.want.Warnings == nil {
			tc.want.Warnings = []string{}
		}
		if diff := cmp.Diff(tc.want, NewResult(tc.run, tc.err, 7*time.Millisecond)); diff != "" {
			t.Errorf("%s: -want +got\n%s", tc.name, diff)
		}
	}
}

func TestOutcome(t *testing.T) {
	for _, tc := range []struct {
		err    error
		status tool.Status
		reason tool.Reason
	}{
		{corral.ErrInvalid, tool.StatusFailed, tool.ReasonInvalid},
		{corral.ErrDenied, tool.StatusDenied, tool.ReasonDenied},
		{corral.ErrUnavailable, tool.StatusFailed, tool.ReasonUnavailable},
		{corral.ErrConflict, tool.StatusFailed, tool.ReasonConflict},
		{corral.ErrDir, tool.StatusFailed, tool.ReasonWorkdir},
		{context.Canceled, tool.StatusFailed, tool.ReasonCancelled},
		{errors.New("?"), tool.StatusFailed, tool.ReasonInternal},
		{corral.ErrLost, tool.StatusUnknown, tool.ReasonLost},
		// Of what is lost nothing else can be said for sure.
		{errors.Join(corral.ErrUnavailable, context.Canceled, corral.ErrLost), tool.StatusUnknown, tool.ReasonLost},
	} {
		if status, reason := app.Outcome(fmt.Errorf("x: %w", tc.err)); status != tc.status || reason != tc.reason {
			t.Errorf("%v: %s, %s; want %s, %s", tc.err, status, reason, tc.status, tc.reason)
		}
	}
}

// Every field is there in every outcome, but those of a failure.
func TestResultShape(t *testing.T) {
	text, err := json.Marshal(NewResult(runner.Result{}, nil, 0))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"status":"completed","exitCode":null,"signal":null,"signalName":null,"stdout":"","stderr":"","output":"",` +
		`"durationMs":0,"truncated":false,"outputBytes":0,"host":"","node":"","sandboxed":false,"cwd":"","enforced":"","notice":"","warnings":[]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
