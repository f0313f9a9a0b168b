package approval

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// A Request is a command that needs an approval.
type Request struct {
	ID         string // of the record, if it is a new one; empty: the desk makes one
	Agent      string
	Host       corral.Host
	Node       string // full name of the node; empty if it is for none
	SessionKey string // the conversation that it comes from

	Command policy.Request
	// Description is the purpose of the command, as its caller states it.
	Description string
	// PathPrepend are the directories before all others on PATH.
	PathPrepend []string
	Decision    policy.Decision
	Binding     Binding

	// Note is the data to run the command later (see Note). It is kept with the record,
	// and not shown.
	Note json.RawMessage
	// Again decides on the command with further rules. The desk offers only rules that
	// would allow the command by it. Nil: that is not checked.
	Again func(further []policy.Rule) policy.Decision
	// Previews are the rules that AllowAlways would remember on another host. Nil: the
	// desk makes them.
	Previews []Preview
}

// State is the state of a request. The set is closed.
type State string

const (
	Pending  State = "pending"
	Allowed  State = "allowed"  // and not yet used
	Consumed State = "consumed" // allowed, and used by the command CommandID
	Denied   State = "denied"   // denied; or allowed, but it could not be used: see Record.Void
	Expired  State = "expired"  // not answered in time, or allowed and not used in time
)

// A Record is a request, its answer and its use.
type Record struct {
	// Seq is the number of its last change, counted over all records. Version counts
	// the changes of this record.
	Seq     int64 `json:"seq"`
	Version int64 `json:"version,omitempty"`

	ID    string `json:"approvalId"`
	Slug  string `json:"approvalSlug"` // short, for people; as good as the ID
	State State  `json:"state"`

	// Gateway is the one at which it was asked for, if several share their approvals.
	Gateway string `json:"gateway,omitempty"`

	Agent      string      `json:"agent"`
	Host       corral.Host `json:"host"`
	Node       string      `json:"node,omitempty"`
	SessionKey string      `json:"sessionKey,omitempty"`

	Command string   `json:"command,omitempty"` // shell text
	Args    []string `json:"args,omitempty"`    // or a program and its arguments
	Cwd     string   `json:"cwd"`
	// Description is the purpose of the command, as its caller states it. It may be
	// false.
	Description string   `json:"description,omitempty"`
	Env         []string `json:"env,omitempty"` // names of the variables that the caller set
	// PathPrepend are the directories before all others on PATH.
	PathPrepend []string        `json:"pathPrepend,omitempty"`
	Decision    policy.Decision `json:"decision"`
	Binding     Binding         `json:"binding"`

	// Previews are the rules that AllowAlways would remember, in each scope.
	Previews []Preview `json:"previews"`
	// AllowedDecisions are the possible answers; if AllowAlways is not among them,
	// AlwaysUnavailable says why.
	AllowedDecisions  []Verdict `json:"allowedDecisions"`
	AlwaysUnavailable string    `json:"allowAlwaysUnavailable,omitempty"`

	CreatedAt time.Time `json:"createdAt"`
	// ExpiresAt is the end of the time for an answer; once allowed, the end of the time
	// for its use.
	ExpiresAt time.Time `json:"expiresAt"`

	Verdict    Verdict   `json:"verdict,omitempty"` // empty: there is no answer
	Scope      Scope     `json:"scope,omitempty"`   // of AllowAlways
	AnsweredBy string    `json:"answeredBy,omitempty"`
	AnsweredAt time.Time `json:"answeredAt,omitzero"`
	// Remembered: the rules of AllowAlways are stored on the gateway's own machine.
	Remembered bool `json:"remembered,omitempty"`

	// Void is why an allowed command could not be started.
	Void string `json:"void,omitempty"`

	Note json.RawMessage `json:"note,omitempty"` // of the Request

	// Granted: it was approved at a gateway, and ID is the one there. The record exists
	// so that the approval is not used twice before ExpiresAt.
	Granted bool `json:"granted,omitempty"`

	CommandID  string    `json:"commandId,omitempty"` // of what it was used by, or is to be, where that is known
	ConsumedAt time.Time `json:"consumedAt,omitzero"`
}

// Text is the command as people read it.
func (r Record) Text() string {
	if r.Command != "" {
		return r.Command
	}
	words := make([]string, len(r.Args))
	for i, a := range r.Args {
		words[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n\"'\\$`&|;<>()*?[]{}#~!") {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// Line is the command on one line, with its description.
func (r Record) Line() string {
	if r.Description == "" {
		return r.Text()
	}
	return r.Text() + " (" + r.Description + ")"
}

// Check says why the approval is not for the claim's command, host and agent, as an
// ErrDenied.
func (r Record) Check(c Claim) error {
	switch {
	case r.Agent != c.Agent:
		return corral.Errorf(corral.ErrDenied, "ask for a new approval", "it was approved for another agent")
	case r.Host != c.Host || !sameName(r.Node, r.Binding, c.Node, c.Binding):
		return corral.Errorf(corral.ErrDenied, "ask for a new approval", "it was approved for %s, not for %s", place(r.Host, r.Node), place(c.Host, c.Node))
	}
	return r.Binding.Check(c.Binding)
}

// Settled describes the record's state in one line, with times as in RFC 3339.
func (r Record) Settled() string {
	return r.SettledAs(func(t time.Time) string { return t.Format(time.RFC3339) })
}

// SettledAs is Settled with times formatted by show.
func (r Record) SettledAs(show func(time.Time) string) string {
	switch {
	case r.State == Pending:
		return fmt.Sprintf("approval %s is pending until %s", r.Slug, show(r.ExpiresAt))
	case r.Verdict == "":
		return fmt.Sprintf("approval %s expired at %s, nobody had answered", r.Slug, show(r.ExpiresAt))
	}
	text := fmt.Sprintf("approval %s was answered %s by %s at %s", r.Slug, r.Verdict, quote(r.AnsweredBy), show(r.AnsweredAt))
	switch r.State {
	case Denied:
		if r.Void != "" {
			text += " and came to nothing: " + r.Void
		}
	case Consumed:
		text += " and used by the command " + r.CommandID
	case Expired:
		text += " and not used until " + show(r.ExpiresAt)
	}
	return text
}

// An Answer is the answer of a person or a program to a request.
type Answer struct {
	Decision Verdict `json:"decision"`
	Scope    Scope   `json:"scope,omitempty"` // of AllowAlways; empty: ScopeExact
	By       string  `json:"by,omitempty"`    // name of the person who answers, for people
}

// A Claim is a command that is about to start by an approval.
type Claim struct {
	CommandID string // a command that is started again may claim again
	Agent     string
	Host      corral.Host
	Node      string
	Binding   Binding // as things are now
}

// A Filter selects records. Empty fields select all.
type Filter struct {
	Agent      string
	SessionKey string
	State      State
}
