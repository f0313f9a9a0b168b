package api

import (
	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// An Explanation is what is decided on a command, and why.
type Explanation struct {
	Agent string       `json:"agent"`
	Route corral.Route `json:"route"`
	// Guarded: the decision applies. Where the route is not guarded nothing
	// stands in the way of the command but what it runs in.
	Guarded  bool            `json:"guarded"`
	Decision policy.Decision `json:"decision"`

	// Requested is what the configuration and the call want, Host what the approvals
	// file of the machine wants. The stricter counts.
	Requested approval.Settings `json:"requested"`
	Host      approval.Settings `json:"host"`

	Unattended bool     `json:"unattended,omitempty"` // no person answers for this agent
	Warnings   []string `json:"warnings,omitempty"`
}

// A Report is an Explanation with what follows from it, for people and
// programs.
type Report struct {
	Explanation

	// Outcome is what would become of the command, and Reason the one line
	// that says why. Where the decision applies (Guarded) they are its.
	Outcome policy.Outcome `json:"outcome"`
	Reason  string         `json:"reason"`
	// Fix is what to change so that it would be allowed, and Commands those of
	// corral that make such a change.
	Fix      []string `json:"fix,omitempty"`
	Commands []string `json:"commands,omitempty"`
	// OnNode: Commands are for the machine that is the node, and not for this one.
	OnNode bool `json:"onNode,omitempty"`

	Command string   `json:"command,omitempty"` // shell text
	Args    []string `json:"args,omitempty"`    // or a program and its arguments
	Shell   []string `json:"shell,omitempty"`   // what reads Command
	Cwd     string   `json:"cwd,omitempty"`     // as far as it is known here

	// TimeoutSeconds is how long a command may run whose call does not say; 0: for ever.
	TimeoutSeconds *float64 `json:"timeoutSeconds,omitempty"`

	// Previews are what allow-always would remember, for a command that would
	// be asked about.
	Previews    []approval.Preview   `json:"previews,omitempty"`
	Environment *pathenv.Description `json:"environment,omitempty"`

	// FromFiles: no gateway was asked. It is what one would say that is
	// started with these files and this environment.
	FromFiles bool `json:"fromFiles,omitempty"`
}
