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
	Agent      string
	Host       corral.Host
	Node       string // its full name, on a node
	SessionKey string // of the conversation that it comes from

	Command policy.Request
	// Description is what the command is for, as its caller says.
	Description string
	Env         map[string]string // what the caller set; the values are not kept
	// PathPrepend are the directories before all others on PATH.
	PathPrepend []string
	Decision    policy.Decision
	Binding     Binding

	// Note is what has to be known to run the command later, as JSON. It is kept
	// with the record, and not shown.
	Note json.RawMessage
	// Again decides on the command with further rules, so that nothing is
	// offered to be remembered that would not do. Nil: that is not looked at.
	Again func(further []policy.Rule) policy.Decision
	// Previews are what AllowAlways would remember, where another host says so. Nil:
	// it is found out here.
	Previews []Preview
}

// State is what became of a request. The set is closed.
type State string

const (
	Pending  State = "pending"
	Allowed  State = "allowed"  // and not yet used
	Consumed State = "consumed" // allowed, and used by the command CommandID
	Denied   State = "denied"   // or allowed, and of no use: see Record.Void
	Expired  State = "expired"  // not answered in time, or allowed and not used in time
)

// A Record is a request and what became of it.
type Record struct {
	// Seq is the number of its last change. Every change has one, greater
	// than all before, of all records; and Version counts those of this one.
	Seq     int64 `json:"seq"`
	Version int64 `json:"version,omitempty"`

	ID    string `json:"approvalId"`
	Slug  string `json:"approvalSlug"` // short, for people; as good as the ID
	State State  `json:"state"`

	// Gateway is where it was asked for, of several that share their approvals.
	Gateway string `json:"gateway,omitempty"`

	Agent      string      `json:"agent"`
	Host       corral.Host `json:"host"`
	Node       string      `json:"node,omitempty"`
	SessionKey string      `json:"sessionKey,omitempty"`

	Command string   `json:"command,omitempty"` // shell text
	Args    []string `json:"args,omitempty"`    // or a program and its arguments
	Cwd     string   `json:"cwd"`
	// Description is what the command is for, as its caller says: nothing is known of
	// whether that is so.
	Description string   `json:"description,omitempty"`
	Env         []string `json:"env,omitempty"` // names of the variables that the caller set
	// PathPrepend are the directories before all others on PATH.
	PathPrepend []string        `json:"pathPrepend,omitempty"`
	Decision    policy.Decision `json:"decision"`
	Binding     Binding         `json:"binding"`

	// Previews are what AllowAlways would remember, in each scope.
	Previews []Preview `json:"previews"`
	// AllowedDecisions are what can be answered; if AllowAlways is not among
	// them, AlwaysUnavailable says why.
	AllowedDecisions  []Verdict `json:"allowedDecisions"`
	AlwaysUnavailable string    `json:"allowAlwaysUnavailable,omitempty"`

	CreatedAt time.Time `json:"createdAt"`
	// ExpiresAt is until when it can be answered; once allowed, until when it
	// can be used.
	ExpiresAt time.Time `json:"expiresAt"`

	Verdict    Verdict   `json:"verdict,omitempty"` // empty: there is no answer
	Scope      Scope     `json:"scope,omitempty"`   // of AllowAlways
	AnsweredBy string    `json:"answeredBy,omitempty"`
	AnsweredAt time.Time `json:"answeredAt,omitzero"`
	// Remembered: what AllowAlways is to remember is, of the gateway's own machine.
	Remembered bool `json:"remembered,omitempty"`

	// Void is why nothing could come of what was allowed.
	Void string `json:"void,omitempty"`

	Note json.RawMessage `json:"note,omitempty"` // of the Request

	// Granted: it was approved at a gateway, whose ID of it this is, and is here
	// so that it is not used twice, which until ExpiresAt it might be.
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

// Line is the command on one line, with what its caller says of it.
func (r Record) Line() string {
	if r.Description == "" {
		return r.Text()
	}
	return r.Text() + " (" + r.Description + ")"
}

// For reports whether it is for a command, by who asked for it.
func (r Record) For(c Claim) bool {
	return r.Host == c.Host && sameName(r.Node, r.Binding, c.Node, c.Binding) && r.Binding.Digest() == c.Binding.Digest()
}

// Settled says in one line what became of it, with moments as in RFC 3339.
func (r Record) Settled() string {
	return r.SettledAs(func(t time.Time) string { return t.Format(time.RFC3339) })
}

// SettledAs is Settled with moments as they are shown elsewhere.
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

// An Answer is what a person or a program says to a request.
type Answer struct {
	Decision Verdict
	Scope    Scope  // of AllowAlways; empty: ScopeExact
	By       string // who says it, for people
}

// A Claim is a command that is about to be started because it was approved.
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
