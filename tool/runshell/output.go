package runshell

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
)

// An Output is the result of a command. It is a tool.Result: JSON for programs, and
// Text for a model.
type Output struct {
	// As in the call. Only Text shows them.
	Command   string `json:"-"`
	Directory string `json:"-"`

	// Without terminal control; a long one is cut in its middle.
	Stdout string `json:"stdout" jsonschema:"Standard output."`
	Stderr string `json:"stderr" jsonschema:"Standard error."`

	// ExitCode is nil if a signal ended the command, or if there is none because of
	// Error. For a command in the background it is 0, as in a shell.
	ExitCode *int `json:"exitCode" jsonschema:"Exit code; null if a signal ended the command."`
	Signal   *int `json:"signal" jsonschema:"Number of the signal that ended the command, else null."`

	// Error is set if the tool failed: the command could not be started, was
	// cancelled, its time was up, or it cannot be known how it ended. A command that
	// fails, or that bash does not find, is no Error.
	Error *string `json:"error" jsonschema:"Why the tool failed, else null; a command that fails is no failure of the tool."`

	PID *int `json:"pid" jsonschema:"PID of the command's main process."` // of bash; nil if that is not known
	// BackgroundPIDs are the PIDs of all processes that go on: the command itself, if
	// it is in the background, and otherwise the processes that it left.
	BackgroundPIDs []int `json:"backgroundPids" jsonschema:"PIDs of what goes on running."`

	Truncated bool `json:"truncated,omitempty" jsonschema:"Whether the middle of an output is left out."`
	// SessionID is the command's ID at the executor, if the executor keeps it.
	SessionID string `json:"sessionId,omitempty" jsonschema:"ID by which the command is known afterwards."`

	// Notice is the notice of the command's corral.Info. It is not in Text, since a
	// model would read it again for each command.
	Notice   string   `json:"notice,omitempty" jsonschema:"What is the same for every command there: that the sandbox is off, and which variables commands do not get."`
	Warnings []string `json:"warnings,omitempty" jsonschema:"What was not done as asked."` // complete sentences
}

// plainOutput is an Output without MarshalJSON.
type plainOutput Output

// MarshalJSON always writes the fields that the first version of the tool had, with null
// for an unset one. It writes the other fields only if they are set.
func (o Output) MarshalJSON() ([]byte, error) {
	if o.BackgroundPIDs == nil {
		o.BackgroundPIDs = []int{}
	}
	return json.Marshal(plainOutput(o))
}

// Text is the result for a model: one field a line; output of the command may have
// several lines.
func (o Output) Text() string {
	pids := make([]string, len(o.BackgroundPIDs))
	for i, pid := range o.BackgroundPIDs {
		pids[i] = strconv.Itoa(pid)
	}
	lines := []string{
		"Command: " + o.Command,
		"Directory: " + cmp.Or(o.Directory, "(root)"),
		"Stdout: " + cmp.Or(o.Stdout, "(empty)"),
		"Stderr: " + cmp.Or(o.Stderr, "(empty)"),
		"Error: " + none(o.Error, func(s string) string { return s }),
		"Exit Code: " + none(o.ExitCode, strconv.Itoa),
		"Signal: " + none(o.Signal, strconv.Itoa),
		"Background PIDs: " + cmp.Or(strings.Join(pids, ", "), "(none)"),
	}
	for _, w := range o.Warnings {
		lines = append(lines, "Warning: "+w)
	}
	return strings.Join(lines, "\n")
}

// Failed reports whether the tool failed.
func (o Output) Failed() bool { return o.Error != nil }

// fail sets Error. The other fields stay.
func (o *Output) fail(err error) {
	text := err.Error()
	if hint := corral.Hint(err); hint != "" {
		text = strings.TrimSuffix(text, ".") + ": " + hint
	}
	o.failed(text)
}

func (o *Output) failed(text string) { o.Error = &text }

func none[T any](v *T, text func(T) string) string {
	if v == nil {
		return "(none)"
	}
	return text(*v)
}
