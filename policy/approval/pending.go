package approval

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/corral-exec/corral"
)

// A PendingError says that a command runs once it is approved. It is an ErrApproval.
type PendingError struct{ Record Record }

func (e *PendingError) Error() string {
	return fmt.Sprintf("approval %s is pending: %s", e.Record.Slug, e.Record.Decision.Reason)
}

// LogValue leaves the command out, which Error quotes.
func (e *PendingError) LogValue() slog.Value {
	return slog.StringValue("approval " + e.Record.Slug + " is pending")
}

// Unwrap gives the kind and the hint.
func (e *PendingError) Unwrap() error {
	return &corral.Error{Kind: corral.ErrApproval, Text: e.Error(), Hint: "corral approvals allow " + e.Record.Slug}
}

// Details is sent with the error over HTTP.
func (e *PendingError) Details() any { return e.Record.Shown() }

// AsPending returns the approval that a command waits for, if err is about one.
func AsPending(err error) (*PendingError, bool) {
	return errors.AsType[*PendingError](err)
}

// A Note is the data of a record that is needed to run the command later and is not shown
// to people. It does not have the values of the environment.
type Note struct {
	Command corral.Command `json:"command"`
	Env     bool           `json:"env,omitempty"` // there were variables
	Route   *corral.Route  `json:"route,omitempty"`
	// Caller is by what right the command was asked for, and runs later. It is a name that
	// only the guard's Config.Caller and Handler know the meaning of. Empty: by every right.
	Caller string `json:"caller,omitempty"`
}

// NewNote is the Note of a command, for Request.Note. A command without an ID gets one.
func NewNote(cmd corral.Command, route corral.Route, caller string) (json.RawMessage, error) {
	n := Note{Command: cmd, Env: len(cmd.Env) > 0, Route: &route, Caller: caller}
	n.Command.Env = nil
	if n.Command.ID == "" {
		n.Command.ID = corral.NewID()
	}
	return json.Marshal(n)
}

// Noted is the Note of a record; false if it has none.
func (r Record) Noted() (n Note, ok bool) {
	return n, json.Unmarshal(r.Note, &n) == nil
}

// StartID is the ID that the command gets, or has, when it runs.
func (r Record) StartID() string {
	n, _ := r.Noted()
	return n.Command.ID
}

// Shown is a record without its internal fields, and with the ID that the command gets
// when it runs.
func (r Record) Shown() Record {
	r.CommandID = cmp.Or(r.CommandID, r.StartID())
	r.Note, r.Version, r.Remembered = nil, 0, false
	return r
}

// Apply completes a command that starts by this approval: it gets the ID and the node of
// the request. If the request named a pool, that is the node that was chosen from it.
func (r Record) Apply(cmd corral.Command) corral.Command {
	if n, ok := r.Noted(); ok {
		cmd.ID = cmp.Or(cmd.ID, n.Command.ID)
		if r.Host == corral.HostNode {
			cmd.Node = cmp.Or(n.Command.Node, cmd.Node)
		}
	}
	cmd.Approval = r.ID
	return cmd
}
