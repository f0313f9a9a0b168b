package config

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// A Gate is one of the conditions for leaving the sandbox, that is not met.
type Gate struct {
	Name   string        `json:"gate"` // enabled or allowFrom
	Key    string        `json:"key"`  // to change
	Source policy.Source `json:"source"`
}

// Gates are the gates that keep a sender in the sandbox; none if the sender may
// leave it. Each level that has the key is one.
func (e Elevated) Gates(s Sender) []Gate {
	var failing []Gate
	for _, enabled := range e.Enabled {
		if !enabled.Value {
			failing = append(failing, Gate{"enabled", cmp.Or(enabled.Source.Key, "tools.elevated.enabled"), enabled.Source})
		}
	}
	for _, from := range e.AllowFrom {
		if !from.Value.Allow(s) {
			failing = append(failing, Gate{"allowFrom", cmp.Or(from.Source.Key, "tools.elevated.allowFrom") + providerKey(s), from.Source})
		}
	}
	if len(e.AllowFrom) == 0 {
		failing = append(failing, Gate{"allowFrom", "tools.elevated.allowFrom" + providerKey(s), policy.Source{Name: builtIn}})
	}
	return failing
}

func providerKey(s Sender) string {
	if s.Provider == "" {
		return ""
	}
	return "." + s.Provider
}

// Check says why the sender may not leave the sandbox; nil if that is allowed.
// The error is an ErrDenied that names every failing gate and its key.
func (e Elevated) Check(s Sender) error {
	failing := e.Gates(s)
	if len(failing) == 0 {
		return nil
	}
	var gates, keys []string
	for _, g := range failing {
		gates = append(gates, fmt.Sprintf("%s (%v)", g.Name, where(g.Source, g.Key)))
		keys = append(keys, g.Key)
	}
	return corral.Errorf(corral.ErrDenied, "leave out elevated, or change "+strings.Join(keys, " and "),
		"elevated is not available: failing gates: %s", strings.Join(gates, ", "))
}

// Level is what a call comes to that asks for elevated (true or false) or does
// not say (nil), before the gates. Only ElevatedFull skips approvals.
func (e Elevated) Level(asked *bool) Level {
	level := e.Default.Value
	if level == ElevatedAsk {
		level = ElevatedOn
	}
	switch {
	case asked == nil:
		return level
	case !*asked:
		return ElevatedOff
	case level == ElevatedFull:
		return ElevatedFull
	}
	return ElevatedOn
}
