package runshell

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
)

// An Output is what came of a command. It is a tool.Result: in JSON for
// programs, and as Text for a model.
type Output struct {
	// As the call gave them. They are in Text alone.
	Command   string `json:"-"`
	Directory string `json:"-"`

	// Without terminal control; long ones with their middle left out.
	Stdout string `json:"stdout" jsonschema:"Standard output."`
	Stderr string `json:"stderr" jsonschema:"Standard error."`

	// ExitCode is nil if a signal ended the command, and if it has none
	// because of Error. That of a command in the background is 0, as it is to
	// a shell that put one there.
	ExitCode *int `json:"exitCode" jsonschema:"Exit code; null if a signal ended the command."`
	Signal   *int `json:"signal" jsonschema:"Number of the signal that ended the command, else null."`

	// Error says that the tool failed: the command could not be started, was
	// cancelled, its time was up, or it cannot be known how it ended. A
	// command that fails, and one that bash does not find, is none.
	Error *string `json:"error" jsonschema:"Why the tool failed, else null; a command that fails is no failure of the tool."`

	PID *int `json:"pid" jsonschema:"PID of the command's main process."` // of bash; nil if that is not known
	// BackgroundPIDs are of everything that runs on: the command, if it is in
	// the background, and else all that it left.
	BackgroundPIDs []int `json:"backgroundPids" jsonschema:"PIDs of what goes on running."`

	Truncated bool `json:"truncated,omitempty" jsonschema:"Whether the middle of an output is left out."`
	// SessionID is where the executor knows the command, if it keeps it.
	SessionID string `json:"sessionId,omitempty" jsonschema:"ID by which the command is known afterwards."`

	// Notice is that of the command's corral.Info. It is not in Text: a model
	// would read it again each time.
	Notice   string   `json:"notice,omitempty" jsonschema:"What is the same for every command there: that the sandbox is off, and which variables commands do not get."`
	Warnings []string `json:"warnings,omitempty" jsonschema:"What was not done as asked."` // complete sentences
}

// plainOutput is an Output whose PIDs are a list.
type plainOutput Output

// MarshalJSON writes every field that the tool has always had, null where there
// is nothing to say, and the others where there is.
func (o Output) MarshalJSON() ([]byte, error) {
	if o.BackgroundPIDs == nil {
		o.BackgroundPIDs = []int{}
	}
	return json.Marshal(plainOutput(o))
}

// Text is the result for a model, one field a line; what the command wrote may
// be several.
func (o Output) Text() string {
	pids := make([]string, len(o.BackgroundPIDs))
	for i, pid := range o.BackgroundPIDs {
		pids[i] = strconv.Itoa(pid)
	}
	lines := []string{
		"Command: " + o.Command,
		"Directory: " + or(o.Directory, "(root)"),
		"Stdout: " + or(o.Stdout, "(empty)"),
		"Stderr: " + or(o.Stderr, "(empty)"),
		"Error: " + none(o.Error, func(s string) string { return s }),
		"Exit Code: " + none(o.ExitCode, strconv.Itoa),
		"Signal: " + none(o.Signal, strconv.Itoa),
		"Background PIDs: " + or(strings.Join(pids, ", "), "(none)"),
	}
	for _, w := range o.Warnings {
		lines = append(lines, "Warning: "+w)
	}
	return strings.Join(lines, "\n")
}

// Failed reports whether the tool did not do what was asked for.
func (o Output) Failed() bool { return o.Error != nil }

// fail makes o that of a tool that failed. What is known of the command stays.
func (o *Output) fail(err error) {
	text := err.Error()
	if hint := corral.Hint(err); hint != "" {
		text = strings.TrimSuffix(text, ".") + ": " + hint
	}
	o.failed(text)
}

func (o *Output) failed(text string) { o.Error = &text }

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func none[T any](v *T, text func(T) string) string {
	if v == nil {
		return "(none)"
	}
	return text(*v)
}
