package guard

import (
	"encoding/json"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy/approval"
)

// A grant tells a node that the gateway's people approved a command. It is in the Decided
// of the corral.Command, in a request that the gateway signs.
type grant struct {
	// Approval is its id at the gateway. Fallback: there is no approval, since nobody
	// could be asked, or answered; askFallback applies.
	Approval string `json:"approval,omitempty"`
	Fallback bool   `json:"fallback,omitempty"`
	// Slug is the short name of the approval, on the gateway and on the node.
	Slug string `json:"slug,omitempty"`

	Agent   string `json:"agent"`
	Command string `json:"command"` // the id of the process
	Binding string `json:"binding"` // the digest that the node sent in its answer

	Always approval.Scope `json:"always,omitempty"` // the scope of allow-always; empty: allow-once
	By     string         `json:"by,omitempty"`     // name of the person who answered
	Until  int64          `json:"until"`            // Unix ms; the grant expires then
	// At is when the grant was made, by the gateway's clock, in Unix ms. Requests are
	// fresh, so the node counts Until - At from now, and the two clocks need not agree.
	// 0: the gateway does not say, and Until is compared with the node's clock.
	At int64 `json:"at,omitempty"`
}

const (
	// grantLife is how long a grant is valid. The gateway sends it at once.
	grantLife = 5 * time.Minute
	// grantSkew is the allowed error of a node's clock, if the clock is used.
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

// parseGrant parses a grant that a gateway sent.
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

// check returns the time, by the clock of now, until which the grant is valid for this
// command and binding, or an error that says why it is not valid.
func (g grant) check(agent, id, binding string, now time.Time) (until time.Time, err error) {
	until, most := time.UnixMilli(g.Until), grantLife+grantSkew
	if g.At != 0 {
		// If the difference overflows, Sub returns the longest duration, which is refused.
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
