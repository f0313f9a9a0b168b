package tool

import (
	"fmt"
	"strings"
	"time"
)

// Text is the result for a model.
func (r ProcessResult) Text() string {
	var t textOf
	t.warnings(r.Warnings)
	if r.Error != "" {
		t.paragraph(sentences(r.Error, r.Hint))
		return t.String()
	}
	switch r.Action {
	case ActionList:
		t.paragraph(r.listText())
	case ActionPoll:
		t.paragraph(r.outputText("(no new output)"))
		t.paragraph(r.stateText())
	case ActionLog:
		t.paragraph(r.outputText("(no output yet)"))
		t.paragraph(r.pageText())
	case ActionWait:
		t.paragraph(r.outputText("(no output yet)"))
		t.paragraph(r.waitText())
	case ActionAttach:
		if r.Stream != nil {
			t.paragraph(fmt.Sprintf("Session %s can be attached to as a stream at %s.", r.SessionID, r.Path))
		}
	case ActionKill:
		t.paragraph(fmt.Sprintf("Termination requested for session %s.", r.SessionID))
		t.paragraph(r.stateText())
	case ActionClear:
		t.paragraph(fmt.Sprintf("Cleared session %s.", r.SessionID))
	case ActionRemove:
		how := ""
		if r.Reason == ReasonKilled {
			how = " (termination requested)"
		}
		t.paragraph(fmt.Sprintf("Removed session %s%s.", r.SessionID, how))
	default:
		t.paragraph(r.inputText())
	}
	return t.String()
}

func (r ProcessResult) listText() string {
	if r.SessionList == nil || len(r.Sessions) == 0 {
		return "No running or recent sessions."
	}
	var lines []string
	for _, s := range r.Sessions {
		lines = append(lines, s.line())
	}
	return strings.Join(lines, "\n")
}

func (s SessionEntry) line() string {
	line := fmt.Sprintf("%s %-9s %s :: %s", s.SessionID, s.Status, duration(time.Duration(s.RuntimeMs)*time.Millisecond), s.Name)
	if s.Description != "" {
		line += " (" + strings.Join(strings.Fields(s.Description), " ") + ")"
	}
	var notes []string
	switch {
	case s.SignalName != nil:
		notes = append(notes, "signal "+*s.SignalName)
	case s.ExitCode != nil && *s.ExitCode != 0:
		notes = append(notes, fmt.Sprintf("code %d", *s.ExitCode))
	}
	if s.Reason != "" {
		notes = append(notes, string(s.Reason))
	}
	if s.WaitingForInput {
		notes = append(notes, "waiting for input")
	}
	if s.Unreachable {
		notes = append(notes, "unreachable")
	}
	if len(notes) > 0 {
		line += " [" + strings.Join(notes, ", ") + "]"
	}
	return line
}

// outputText is the output, or none if there is no output.
func (r ProcessResult) outputText(none string) string {
	if r.SessionOutput == nil {
		return none
	}
	if out := strings.TrimRight(r.Output, "\r\n\t "); strings.TrimSpace(out) != "" {
		return out
	}
	if r.Status != StatusRunning && r.OutputBytes == 0 {
		return "(no output recorded)"
	}
	return none
}

// stateText says whether and how the session ended.
func (r ProcessResult) stateText() string {
	switch {
	case r.Status == StatusRunning:
		text := "Process still running."
		if r.SessionOutput != nil && r.WaitingForInput {
			text += " It seems to wait for input."
		}
		if r.SessionOutput != nil && r.RetryInMs >= 10_000 {
			text += fmt.Sprintf(" Nothing new for several polls: poll again in %s, or use wait.", seconds(time.Duration(r.RetryInMs)*time.Millisecond))
		}
		return text
	case r.Status == StatusUnknown:
		return "It is not known how the process ended, or whether it has."
	case r.SessionEnd == nil:
		return ""
	}
	var how string
	switch {
	case r.SignalName != nil:
		how = "Process exited with signal " + *r.SignalName
	case r.ExitCode != nil:
		how = fmt.Sprintf("Process exited with code %d", *r.ExitCode)
	default:
		how = "Process failed"
	}
	if why := map[Reason]string{
		ReasonTimeout: "its time was up", ReasonOOM: "there was no memory left", ReasonCancelled: "its call was cancelled", ReasonKilled: "killed on request", ReasonNotStarted: "it was never started",
	}[r.Reason]; why != "" {
		how += " (" + why + ")"
	}
	return how + "."
}

// pageText says which lines are shown, if there are others.
func (r ProcessResult) pageText() string {
	if r.LogPage == nil {
		return ""
	}
	var notes []string
	if r.Default && r.TotalLines > r.Lines {
		notes = append(notes, fmt.Sprintf("[showing last %d of %d lines; pass offset/limit to page]", r.Lines, r.TotalLines))
	}
	if r.SessionOutput != nil && r.OmittedBytes > 0 {
		notes = append(notes, fmt.Sprintf("[of %d bytes, %d in the middle are no longer kept]", r.OutputBytes, r.OmittedBytes))
	}
	if r.SessionOutput != nil && r.Truncated {
		notes = append(notes, "[too long to show as a whole; pass offset/limit to see less of it]")
	}
	return strings.Join(notes, "\n")
}

func (r ProcessResult) waitText() string {
	if r.WaitEnd == nil {
		return ""
	}
	switch r.Met {
	case "pattern":
		return fmt.Sprintf("Found %q. %s", r.Match, r.stateText())
	case "":
		return "Nothing of what was waited for came in time. " + r.stateText()
	}
	return r.stateText()
}

func (r ProcessResult) inputText() string {
	n := 0
	if r.BytesWritten != nil {
		n = *r.BytesWritten
	}
	switch r.Action {
	case ActionWrite:
		closed := ""
		if r.closed {
			closed = " (stdin closed)"
		}
		return fmt.Sprintf("Wrote %d bytes to session %s%s.", n, r.SessionID, closed)
	case ActionSendKeys:
		return fmt.Sprintf("Sent %d bytes to session %s.", n, r.SessionID)
	case ActionSubmit:
		return fmt.Sprintf("Submitted session %s (sent CR).", r.SessionID)
	case ActionPaste:
		return fmt.Sprintf("Pasted %d bytes to session %s.", n, r.SessionID)
	case ActionResize:
		if r.size != nil {
			return fmt.Sprintf("Resized the terminal of session %s to %d rows and %d columns.", r.SessionID, r.size.Rows, r.size.Cols)
		}
	}
	return ""
}

// duration is a duration in at most two units: "420ms", "42s", "3m07s".
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
