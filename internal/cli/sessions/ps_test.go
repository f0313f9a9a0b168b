package sessions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/session"
)

func TestSessionTable(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	exit := func(code int, sig corral.Signal) *corral.Exit {
		return &corral.Exit{Code: code, Signal: sig}
	}
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	end := func(d time.Duration) *time.Time { e := ago(d); return &e }
	list := []session.Status{
		{ID: "brave-otter-k3x9abcd", Agent: "main", Outcome: session.Outcome{State: session.Running}, Host: "gateway", StartedAt: ago(90 * time.Second), Name: "make test"},
		{ID: "abcdefghijklmnopqrstuvwxyz", Agent: "main", Outcome: session.Outcome{State: session.Running}, WaitingForInput: true, Host: "sandbox", StartedAt: ago(3 * time.Hour), Name: "python3\x1b[31m\n évil"},
		{ID: "abcdefghijklmxxxxxxxxxxxxx", Agent: "b", Outcome: session.Outcome{State: session.Completed, Exit: exit(0, 0)}, EndedAt: end(time.Second), Host: "node", Node: "n1", StartedAt: ago(1500 * time.Millisecond), Name: "true"},
		{ID: "c", Agent: "b", Outcome: session.Outcome{State: session.Completed, Exit: exit(3, 0)}, EndedAt: end(0), Host: "gateway", StartedAt: ago(49 * time.Hour), Name: "日本語のコマンド"},
		{ID: "d", Agent: "b", Outcome: session.Outcome{State: session.Completed, Exit: exit(-1, corral.SIGKILL)}, EndedAt: end(0), Host: "gateway", StartedAt: ago(time.Minute), Name: "sleep"},
		{ID: "e", Agent: "b", Outcome: session.Outcome{State: session.Failed, Reason: session.ReasonTimeout, Exit: exit(-1, corral.SIGTERM)}, EndedAt: end(0), Host: "gateway", StartedAt: ago(time.Minute)},
		{ID: "f", Agent: "b", Outcome: session.Outcome{State: session.Unknown, Reason: session.ReasonLost}, Host: "gateway", StartedAt: ago(time.Minute), Name: "x"},
		{ID: "g", Agent: "b", Outcome: session.Outcome{State: session.Running}, Unreachable: true, Host: "sandbox", StartedAt: ago(time.Minute), Name: "y"},
		{ID: "h", Agent: "b", Outcome: session.Outcome{State: session.Failed, Reason: session.ReasonNotStarted}},
	}
	check := func(file, got string) {
		t.Helper()
		path := filepath.Join("testdata", file)
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s: %s\n%s", file, d, got)
		}
	}
	check("ps.txt", sessionTable(list, list, false, now).Text(0, false))
	check("ps-agents-60.txt", sessionTable(list, list, true, now).Text(60, false))
	check("ps-colours.txt", sessionTable(list, list[:3], false, now).Text(80, true))
	check("ps-empty.txt", sessionTable(nil, nil, false, now).Text(80, false))
	for width := 1; width < 90; width++ {
		for line := range strings.Lines(sessionTable(list, list, true, now).Text(width, false)) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("a line of %d characters on a terminal of %d: %q", n, width, line)
			}
		}
	}
}

func TestSessionEnd(t *testing.T) {
	exit := func(code int, sig corral.Signal, r corral.Reason) *corral.Exit {
		return &corral.Exit{Code: code, Signal: sig, Reason: r}
	}
	for _, tc := range []struct {
		status session.Status
		code   int
	}{
		{session.Status{Outcome: session.Outcome{State: session.Completed, Exit: exit(0, 0, corral.ReasonExited)}}, 0},
		{session.Status{Outcome: session.Outcome{State: session.Completed, Exit: exit(9, 0, corral.ReasonExited)}}, 9},
		{session.Status{Outcome: session.Outcome{State: session.Completed, Exit: exit(-1, 9, corral.ReasonExited)}}, 137},
		{session.Status{Outcome: session.Outcome{State: session.Failed, Reason: session.ReasonTimeout, Exit: exit(-1, 15, corral.ReasonTimeout)}}, 124},
		{session.Status{Outcome: session.Outcome{State: session.Failed, Reason: session.ReasonOOM, Exit: exit(-1, 9, corral.ReasonOOM)}}, 137},
		{session.Status{Outcome: session.Outcome{State: session.Failed, Reason: session.ReasonOOM, Exit: exit(137, 0, corral.ReasonOOM)}}, 137},
		{session.Status{Outcome: session.Outcome{State: session.Failed, Reason: session.ReasonKilled, Exit: exit(-1, 15, corral.ReasonExited)}}, 143},
		{session.Status{Outcome: session.Outcome{State: session.Failed, Reason: session.ReasonNotStarted}}, 125},
		{session.Status{Outcome: session.Outcome{State: session.Unknown, Reason: session.ReasonLost}}, 125},
	} {
		if got := app.ExitCode(sessionEnd(tc.status)); got != tc.code {
			t.Errorf("%+v: %d, want %d", tc.status, got, tc.code)
		}
	}
}

func TestShownCommand(t *testing.T) {
	st := session.Status{Command: "bash -c cat", Description: "[background] Wait for input"}
	if text := shownCommand(st); text != "bash -c cat ([background] Wait for input)" {
		t.Errorf("%q", text)
	}
}
