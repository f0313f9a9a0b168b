package api

import (
	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// An Explanation is the decision on a command, and its reasons.
type Explanation struct {
	Agent string       `json:"agent"`
	Route corral.Route `json:"route"`
	// Guarded: the decision applies. If the route is not guarded, nothing but its
	// environment limits the command.
	Guarded  bool            `json:"guarded"`
	Decision policy.Decision `json:"decision"`

	// Requested is from the configuration and the call, Host from the approvals file of
	// the machine. The stricter one counts.
	Requested approval.Settings `json:"requested"`
	Host      approval.Settings `json:"host"`

	Unattended bool     `json:"unattended,omitempty"` // no person answers for this agent
	Warnings   []string `json:"warnings,omitempty"`
}

// A Report is an Explanation with its consequences, for people and programs.
type Report struct {
	Explanation

	// Outcome is the result for the command, and Reason the one line that explains it.
	// If the decision applies (Guarded) they come from it.
	Outcome policy.Outcome `json:"outcome"`
	Reason  string         `json:"reason"`
	// Fix lists changes that would allow the command, and Commands the corral commands
	// that make such a change.
	Fix      []string `json:"fix,omitempty"`
	Commands []string `json:"commands,omitempty"`
	// OnNode: Commands are for the node's machine, and not for this one.
	OnNode bool `json:"onNode,omitempty"`

	Command string   `json:"command,omitempty"` // shell text
	Args    []string `json:"args,omitempty"`    // or a program and its arguments
	Shell   []string `json:"shell,omitempty"`   // the shell that reads Command
	Cwd     string   `json:"cwd,omitempty"`     // as far as known here

	// TimeoutSeconds is the time-out of a command whose call sets none; 0: none.
	TimeoutSeconds *float64 `json:"timeoutSeconds,omitempty"`

	// Previews are the rules that allow-always would add, for a command that needs an
	// approval.
	Previews    []approval.Preview   `json:"previews,omitempty"`
	Environment *pathenv.Description `json:"environment,omitempty"`

	// FromFiles: no gateway was asked. A gateway that starts with these files and this
	// environment would answer the same.
	FromFiles bool `json:"fromFiles,omitempty"`
}
