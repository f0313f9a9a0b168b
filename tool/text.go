package tool

import (
	"fmt"
	"strings"
	"time"

	"github.com/corral-exec/corral/internal/words"
)

// Text is the result for a model: the warnings, the notice, the output, and at the end how
// the command ended.
func (r ExecResult) Text() string {
	var t textOf
	t.warnings(r.Warnings)
	if r.Notice != "" {
		t.paragraph("(" + r.Notice + ")")
	}
	switch r.Status {
	case StatusRunning:
		if r.Running != nil {
			t.paragraph(strings.TrimSpace(r.Tail))
			t.paragraph(fmt.Sprintf("Command still running (session %s, pid %s). Use process (list/poll/log/write/kill/clear/remove) for follow-up.", r.SessionID, pid(r.PID)))
		}
	case StatusApprovalPending:
		if r.Approval != nil {
			t.paragraph(r.approval())
		}
	case StatusDenied:
		t.paragraph(sentences(r.Error, r.Hint))
		if r.Denial != nil && r.Hint == "" && r.Allow != "" {
			t.paragraph("What would allow it: " + r.Allow + ".")
		}
	case StatusCompleted:
		t.paragraph(r.output("(no output)"))
		if r.Ended != nil {
			t.paragraph(exitLine(r.ExitCode, r.SignalName))
		}
		t.paragraph(r.rest())
	default:
		t.paragraph(r.output(""))
		t.paragraph(r.rest())
		t.paragraph(sentences(r.Error, r.Hint))
	}
	return t.String()
}

func (r ExecResult) output(none string) string {
	if r.Ended == nil {
		return none
	}
	if out := strings.TrimRight(r.Output, "\r\n\t "); strings.TrimSpace(out) != "" {
		return out
	}
	return none
}

// rest says where the rest of the output is.
func (r ExecResult) rest() string {
	if r.Ended == nil || !r.Truncated || r.SessionID == "" {
		return ""
	}
	return fmt.Sprintf("(The command wrote %d bytes. All of them that are kept: process log, session %s.)", r.OutputBytes, r.SessionID)
}

func (r ExecResult) approval() string {
	lines := []string{fmt.Sprintf("Approval required (id %s, full %s).", r.ApprovalSlug, r.ApprovalID), "Host: " + string(r.Host)}
	if r.Node != "" {
		lines = append(lines, "Node: "+r.Node)
	}
	return strings.Join(append(lines,
		"Why: "+r.Why,
		"CWD: "+r.Cwd,
		"Command: "+r.Command,
		"Decisions: "+words.List(r.AllowedDecisions),
		"Expires: "+r.ExpiresAt.UTC().Format(time.RFC3339),
		"Nothing has run yet. It runs in the background when it is allowed, as session "+r.SessionID+".",
	), "\n")
}

// exitLine says how a completed command ended; empty for a success.
func exitLine(code *int, signal *string) string {
	switch {
	case signal != nil:
		return "(Command aborted by signal " + *signal + ")"
	case code != nil && *code != 0:
		return fmt.Sprintf("(Command exited with code %d)", *code)
	}
	return ""
}

func pid(n int) string {
	if n == 0 {
		return "n/a"
	}
	return fmt.Sprint(n)
}

// textOf is a text of paragraphs.
type textOf struct{ paragraphs []string }

func (t *textOf) paragraph(text string) {
	if text != "" {
		t.paragraphs = append(t.paragraphs, text)
	}
}

func (t *textOf) warnings(warnings []string) {
	var lines []string
	for _, w := range warnings {
		lines = append(lines, "Warning: "+w)
	}
	t.paragraph(strings.Join(lines, "\n"))
}

func (t *textOf) String() string { return strings.Join(t.paragraphs, "\n\n") }

// sentences joins an error and its hint.
func sentences(text, hint string) string {
	if hint == "" {
		return text
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text + " " + strings.ToUpper(hint[:1]) + strings.TrimSuffix(hint[1:], ".") + "."
}
