package guard

import (
	"encoding/json"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy/approval"
)

// A grant is a gateway's word to a node, in the Decided of a corral.Command, that a command
// was approved. It travels in a request that the gateway signs.
type grant struct {
	// Approval is its id at the gateway. Fallback: there is none, since it could
	// not be asked for, or there was no answer.
	Approval string `json:"approval,omitempty"`
	Fallback bool   `json:"fallback,omitempty"`
	// Slug is what people call it there, and are to call it on the node.
	Slug string `json:"slug,omitempty"`

	Agent   string `json:"agent"`
	Command string `json:"command"` // the id of the process
	Binding string `json:"binding"` // the digest that the node told

	Always approval.Scope `json:"always,omitempty"` // to be remembered
	By     string         `json:"by,omitempty"`     // who answered
	Until  int64          `json:"until"`            // Unix ms; it is no good later
	// At is when it was given, by the same clock, in Unix ms: the request that
	// it is in cannot be old, so that no two clocks have to be the same. 0: the
	// gateway does not say, and Until is taken by the node's clock.
	At int64 `json:"at,omitempty"`
}

const (
	// grantLife is for how long a grant is good: a start is asked for at once.
	grantLife = 5 * time.Minute
	// grantSkew is how wrong the clock of a node may be, if it counts.
	grantSkew = 2 * time.Minute
	maxGrant  = 4 << 10 // bytes
	maxBy     = 200
)

func (g grant) encode() ([]byte, error) {
	if len(g.By) > maxBy {
		g.By = g.By[:maxBy]
	}
	return json.Marshal(g)
}

// parseGrant reads what a gateway says.
func parseGrant(b []byte) (grant, error) {
	var g grant
	if len(b) > maxGrant {
		return g, refusal("it has %d bytes", len(b))
	}
	if err := json.Unmarshal(b, &g); err != nil {
		return grant{}, refusal("it cannot be read: %v", err)
	}
	if g.Fallback == (g.Approval != "") {
		return grant{}, refusal("it does not say by which approval")
	}
	if g.Approval != "" {
		if err := corral.ValidateID(g.Approval); err != nil {
			return grant{}, refusal("its approval can be none: %v", err)
		}
	}
	if g.Always != "" {
		scope, err := approval.ParseScope(string(g.Always))
		if err != nil {
			return grant{}, refusal("%v", err)
		}
		g.Always = scope
	}
	return g, nil
}

// check says until when, by the clock of now, the grant is one for this command
// as things are now, or why it is none.
func (g grant) check(agent, id, binding string, now time.Time) (until time.Time, err error) {
	until, most := time.UnixMilli(g.Until), grantLife+grantSkew
	if g.At != 0 {
		// What does not fit into a duration is longer than any is, too.
		until, most = now.Add(until.Sub(time.UnixMilli(g.At))), grantLife
	}
	switch {
	case g.Agent != agent:
		err = refusal("it is for the agent %q, and the command is of %q", g.Agent, agent)
	case g.Command != id:
		err = refusal("it is for the process %q, and not for %s", g.Command, id)
	case g.Binding != binding:
		err = refusal("what it was given for is not what would run now: the command, its directory, environment, programs or scripts were changed")
	case !now.Before(until):
		err = refusal("it was good until %s, and it is %s here", until.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case until.After(now.Add(most)):
		err = refusal("it would be good until %s, which is longer than any is", until.UTC().Format(time.RFC3339))
	}
	return until, err
}

func refusal(format string, args ...any) error {
	return corral.Errorf(corral.ErrDenied, "ask for a new approval", "the node refuses the gateway's approval: "+format, args...)
}
