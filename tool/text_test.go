package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

func TestExecText(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		r    ExecResult
		want string
	}{
		"warnings come first": {
			ExecResult{Status: StatusCompleted, Ended: &Ended{ExitStatus: corral.ExitStatus{ExitCode: ptr(0)}, Output: "out\n"}, Warnings: []string{"One.", "Two."}, Notice: "the sandbox is off; 1 variable left out: A"},
			"Warning: One.\nWarning: Two.\n\n(the sandbox is off; 1 variable left out: A)\n\nout"},
		"blank output is none": {
			ExecResult{Status: StatusCompleted, Ended: &Ended{ExitStatus: corral.ExitStatus{ExitCode: ptr(0)}, Output: " \n\n"}}, "(no output)"},
		"indentation stays": {
			ExecResult{Status: StatusCompleted, Ended: &Ended{ExitStatus: corral.ExitStatus{ExitCode: ptr(0)}, Output: "  a\n b\n"}}, "  a\n b"},
		"truncated": {
			ExecResult{Status: StatusCompleted, SessionID: "x", Ended: &Ended{ExitStatus: corral.ExitStatus{ExitCode: ptr(2)}, Output: "a", Truncated: true, OutputBytes: 99}},
			"a\n\n(Command exited with code 2)\n\n(The command wrote 99 bytes. All of them that are kept: process log, session x.)"},
		"running without a pid and output": {
			ExecResult{Status: StatusRunning, SessionID: "x", Running: &Running{}},
			"Command still running (session x, pid n/a). Use process (list/poll/log/write/kill/clear/remove) for follow-up."},
		"failed": {
			ExecResult{Status: StatusFailed, Error: "no such directory", Hint: "create it", Ended: &Ended{}}, "no such directory. Create it."},
		"failed after some output": {
			ExecResult{Status: StatusFailed, Error: "Time is up.", Ended: &Ended{Output: "half\n"}}, "half\n\nTime is up."},
		"unknown": {
			ExecResult{Status: StatusUnknown, Error: "It is not known.", Hint: "look", Ended: &Ended{Output: "half\n"}}, "half\n\nIt is not known. Look."},
		"denied": {
			ExecResult{Status: StatusDenied, Error: "exec denied: x", Denial: &Denial{Rule: "x", Allow: "y"}}, "exec denied: x\n\nWhat would allow it: y."},
		"pending": {
			ExecResult{Status: StatusApprovalPending, SessionID: "tidy-fox", Host: corral.HostNode, Node: "mac", Cwd: "/w", Approval: &Approval{
				ApprovalID: "abcdef", ApprovalSlug: "abc", ExpiresAt: at, AllowedDecisions: []approval.Verdict{"allow-once", "deny"}, Command: "rm x", Why: "no rule allows it"}},
			"Approval required (id abc, full abcdef).\nHost: node\nNode: mac\nWhy: no rule allows it\nCWD: /w\nCommand: rm x\nDecisions: allow-once, deny\nExpires: 2026-01-02T03:04:05Z\nNothing has run yet. It runs in the background when it is allowed, as session tidy-fox."},
		"a status without its shape": {ExecResult{Status: StatusRunning}, ""},
	} {
		if got := tc.r.Text(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestProcessText(t *testing.T) {
	out := func(text string) *SessionOutput { return &SessionOutput{Output: text, OutputBytes: int64(len(text))} }
	for name, tc := range map[string]struct {
		r    ProcessResult
		want string
	}{
		"poll, again and again": {
			ProcessResult{Action: ActionPoll, Status: StatusRunning, SessionOutput: &SessionOutput{RetryInMs: 30000, WaitingForInput: true}},
			"(no new output)\n\nProcess still running. It seems to wait for input. Nothing new for several polls: poll again in 30 seconds, or use wait."},
		"poll of what said nothing": {
			ProcessResult{Action: ActionPoll, Status: StatusCompleted, SessionEnd: &SessionEnd{ExitStatus: corral.ExitStatus{ExitCode: ptr(0)}}, SessionOutput: out("")},
			"(no output recorded)\n\nProcess exited with code 0."},
		"poll after a time-out": {
			ProcessResult{Action: ActionPoll, Status: StatusFailed, Reason: ReasonTimeout, SessionEnd: &SessionEnd{ExitStatus: corral.ExitStatus{SignalName: ptr("SIGTERM")}}, SessionOutput: out("x\n")},
			"x\n\nProcess exited with signal SIGTERM (its time was up)."},
		"poll of what had no memory": {
			ProcessResult{Action: ActionPoll, Status: StatusFailed, Reason: ReasonOOM, SessionEnd: &SessionEnd{ExitStatus: corral.ExitStatus{SignalName: ptr("SIGKILL")}}, SessionOutput: out("x\n")},
			"x\n\nProcess exited with signal SIGKILL (there was no memory left)."},
		"poll of what never began": {
			ProcessResult{Action: ActionPoll, Status: StatusFailed, Reason: ReasonNotStarted, SessionEnd: &SessionEnd{}, SessionOutput: out("")},
			"(no output recorded)\n\nProcess failed (it was never started)."},
		"poll of what is lost": {
			ProcessResult{Action: ActionPoll, Status: StatusUnknown, SessionEnd: &SessionEnd{}, SessionOutput: out("x")},
			"x\n\nIt is not known how the process ended, or whether it has."},
		"log, the last lines": {
			ProcessResult{Action: ActionLog, Status: StatusRunning, SessionOutput: out("x\n"), LogPage: &LogPage{Lines: 200, TotalLines: 300, Default: true}},
			"x\n\n[showing last 200 of 300 lines; pass offset/limit to page]"},
		"log with a gap": {
			ProcessResult{Action: ActionLog, Status: StatusRunning, SessionOutput: &SessionOutput{Output: "x", Truncated: true, OutputBytes: 9, OmittedBytes: 4}, LogPage: &LogPage{}},
			"x\n\n[of 9 bytes, 4 in the middle are no longer kept]\n[too long to show as a whole; pass offset/limit to see less of it]"},
		"remove of what had ended": {
			ProcessResult{Action: ActionRemove, Status: StatusCompleted, SessionID: "x"}, "Removed session x."},
		"error": {
			ProcessResult{Action: ActionPoll, Error: "No session found for x"}, "No session found for x"},
		"list": {
			ProcessResult{Action: ActionList, SessionList: &SessionList{Sessions: []SessionEntry{
				{SessionID: "a", Status: StatusRunning, Name: "cat", RuntimeMs: 999, WaitingForInput: true, Unreachable: true},
				{SessionID: "b", Status: StatusCompleted, Name: "npm run", Description: "the\nbuild", RuntimeMs: 61_000, ExitStatus: corral.ExitStatus{ExitCode: ptr(1)}},
				{SessionID: "c", Status: StatusCompleted, Name: "ls", RuntimeMs: 3_725_000, ExitStatus: corral.ExitStatus{ExitCode: ptr(0)}},
			}}},
			"a running   999ms :: cat [waiting for input, unreachable]\nb completed 1m01s :: npm run (the build) [code 1]\nc completed 1h02m :: ls"},
	} {
		if got := tc.r.Text(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "1 second", 45 * time.Second: "45 seconds", 500 * time.Millisecond: "0.5 seconds", 30 * time.Minute: "1800 seconds",
	} {
		if got := seconds(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
}

func TestCuts(t *testing.T) {
	if got := lastChars("aäöü", 2); got != "öü" {
		t.Errorf("%q", got)
	}
	if got := lastChars("ab", 2); got != "ab" {
		t.Errorf("%q", got)
	}
	if got := lastChars("", 2); got != "" {
		t.Errorf("%q", got)
	}
	text := strings.Repeat("ä", 100)
	got, cut := bounded(text, 21)
	if want := strings.Repeat("ä", 5) + "\n[… 180 bytes left out …]\n" + strings.Repeat("ä", 5); got != want || !cut {
		t.Errorf("%q", got)
	}
	if got, cut := bounded(text, 200); got != text || cut {
		t.Errorf("%q", got)
	}
}

func TestOutcome(t *testing.T) {
	cancelled, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the turn is over")
	cancel(cause)
	for _, tc := range []struct {
		ctx    context.Context
		err    error
		status Status
		reason Reason
	}{
		{cancelled, fmt.Errorf("x: %w", cause), StatusFailed, ReasonCancelled},
		{cancelled, fmt.Errorf("x: %w", context.Canceled), StatusFailed, ReasonCancelled},
		{t.Context(), context.Canceled, StatusFailed, ReasonInternal}, // somebody else's
		{cancelled, corral.ErrDir, StatusFailed, ReasonWorkdir},
		{cancelled, corral.Errorf(corral.ErrLost, "", "x: %w", cause), StatusUnknown, ReasonLost},
		{t.Context(), corral.Errorf(corral.ErrDenied, "", "x: %w", corral.ErrInvalid), StatusDenied, ReasonDenied},
		{t.Context(), corral.ErrStdinClosed, StatusFailed, ReasonEnded},
		{t.Context(), errors.ErrUnsupported, StatusFailed, ReasonUnsupported},
		{t.Context(), errors.New("x"), StatusFailed, ReasonInternal},
	} {
		if status, reason := Outcome(tc.ctx, tc.err); status != tc.status || reason != tc.reason {
			t.Errorf("%v: %s, %s", tc.err, status, reason)
		}
	}
}

func TestPlan(t *testing.T) {
	tools := New(Config{Defaults: Defaults{
		Workdir: "/w", Host: corral.HostNode, Node: "mac", Security: policy.SecurityAllowlist, Ask: policy.AskOnMiss,
		Timeout: time.Minute, NotifyOnExit: ptr(false), PathPrepend: []string{"/p"},
	}})
	plan := func(req ExecRequest) plan {
		t.Helper()
		req.Command = "x"
		p, err := tools.plan(req)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := plan(ExecRequest{})
	if c := p.command; c.Dir != "/w" || c.Host != corral.HostNode || c.Node != "mac" || c.Timeout != time.Minute || c.Stdin || c.TTY != nil || len(c.PathPrepend) != 1 {
		t.Errorf("%+v", c)
	}
	if p.wait != DefaultYield || p.notify || p.background || p.command.Security != string(policy.SecurityAllowlist) || p.command.Ask != string(policy.AskOnMiss) {
		t.Errorf("%+v", p)
	}
	p = plan(ExecRequest{
		Workdir: "sub", Host: " Sandbox", Security: "DENY", Ask: "off", NotifyOnExit: ptr(true), PTY: true, Timeout: ptr(0.0), YieldMs: ptr(1),
	})
	if c := p.command; c.Dir != "sub" || c.Host != corral.HostSandbox || c.Node != "" || c.Timeout != 0 || !c.Stdin || c.TTY == nil {
		t.Errorf("%+v", c)
	}
	if p.wait != MinYield || !p.notify || p.command.Security != string(policy.SecurityDeny) || p.command.Ask != string(policy.AskOnMiss) {
		t.Errorf("%+v", p)
	}
	if p := plan(ExecRequest{YieldMs: ptr(1 << 30), Timeout: ptr(1e-9), Ask: policy.AskAlways, Background: true}); p.wait != MaxYield || p.command.Timeout != time.Millisecond || p.command.Ask != string(policy.AskAlways) || !p.command.Stdin {
		t.Errorf("%+v", p)
	}
	if p := plan(ExecRequest{TimeoutSeconds: ptr(1.5)}); p.command.Timeout != 1500*time.Millisecond {
		t.Errorf("%+v", p)
	}
}
