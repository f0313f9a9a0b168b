package api

// Approvals is the answer of the list.
type Approvals[Record any] struct {
	Approvals []Record `json:"approvals"`
}

// EventApproval is the type of the server-sent event that has an approval.
const EventApproval = "approval"

// DenyAll is the body of an answer to all approvals that are pending.
type DenyAll struct {
	Decision string `json:"decision"`        // deny, or an alias of it
	Agent    string `json:"agent,omitempty"` // empty: of all agents
	By       string `json:"by,omitempty"`    // the person who answers, for people
}

// Rules is the answer of the rules of approvals: the rules of the gateway's approvals
// file for an agent.
type Rules[Rule any] struct {
	File     string   `json:"file"`
	Agent    string   `json:"agent"`
	Rules    []Rule   `json:"rules"`
	Warnings []string `json:"warnings"` // about entries that allow nothing
}

// NewRule is the body of a rule to add.
type NewRule struct {
	Agent   string `json:"agent,omitempty"`  // empty: main; "*": all
	Action  string `json:"action,omitempty"` // allow, ask or deny; empty: allow
	Pattern string `json:"pattern"`
	// Args are the exact arguments; nil: any arguments after those of Pattern.
	Args   []string `json:"args,omitzero"`
	Reason string   `json:"reason,omitempty"`
}

// RuleTrial is the body of a preview: a rule that would be added, or, with Remove, the
// one that would be removed.
type RuleTrial struct {
	NewRule
	Remove string `json:"remove,omitempty"` // its ID or pattern
}

// RuleEffects are what a rule would change about the last commands.
type RuleEffects[Outcome ~string] struct {
	Commands int                   `json:"commands"` // that were looked at
	Changed  []RuleEffect[Outcome] `json:"changed"`  // the newest first
}

// RuleEffect is a command that was run, and would be decided on in another way.
type RuleEffect[Outcome ~string] struct {
	Agent     string  `json:"agent"`
	SessionID string  `json:"sessionId"`
	Command   string  `json:"command"`
	Now       Outcome `json:"now"`  // allow, ask or deny
	Then      Outcome `json:"then"` // with the change
}

// Removed is the answer of removing rules.
type Removed struct {
	Removed int `json:"removed"`
}
