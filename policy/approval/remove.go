package approval

import (
	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// RemoveRule removes an agent's rules of all actions with this ID or pattern from a File.
// If there are none, it returns an ErrNotFound.
func RemoveRule(f interface {
	Remove(agent string, action policy.Action, ref string) (int, error)
}, agent, ref string) (removed int, err error) {
	for _, l := range lists {
		n, err := f.Remove(agent, l.action, ref)
		if removed += n; err != nil {
			return removed, err
		}
	}
	if removed == 0 {
		return 0, corral.Errorf(corral.ErrNotFound, "list them; those of all agents are of the agent *", "the agent %s has no rule of its own with the id or the pattern %s", agent, quote(ref))
	}
	return removed, nil
}
