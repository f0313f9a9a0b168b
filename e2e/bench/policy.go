//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/corral-exec/corral/policy"
)

const (
	policyName  = "policy"
	policyRules = 200
	// maxDecide is what a decision on a typical command may take, in µs.
	maxDecide = 50
)

// decided are commands to decide on. The first is the typical one.
var decided = []string{"git status -s", "npm test", "ls -la src | grep -n foo | head -5"}

// addPolicy adds how long a decision takes, on the real file system.
func (r *report) addPolicy(rounds int) {
	rules := policy.Rules{
		Security: policy.Setting[policy.Security]{Value: policy.SecurityAllowlist},
		Ask:      policy.Setting[policy.Ask]{Value: policy.AskOnMiss},
		SafeBins: policy.Setting[[]string]{Value: []string{"head"}},
		List: []policy.Rule{
			{Action: policy.Allow, Pattern: "/usr/bin/git status"}, {Action: policy.Allow, Pattern: "/usr/bin/ls"},
			{Action: policy.Allow, Pattern: "/usr/bin/grep"}, {Action: policy.Deny, Pattern: "rm -rf"},
		},
	}
	for i := len(rules.List); i < policyRules; i++ {
		rules.List = append(rules.List, policy.Rule{Action: policy.Allow, Pattern: fmt.Sprintf("/opt/tool-%d/bin/* run", i)})
	}
	for i, command := range decided {
		req := policy.Request{
			Command: command, Shell: []string{"/bin/bash", "-c"}, Dir: "/tmp", Home: "/root",
			Path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		}
		took := make([]time.Duration, rounds)
		for n := range took {
			began := time.Now()
			policy.Decide(req, rules, policy.OS{})
			took[n] = time.Since(began)
		}
		slices.Sort(took)
		at := func(q float64) float64 { return float64(took[int(q*float64(rounds-1))]) / 1e3 }
		c := check{}
		if i == 0 {
			c.atMost = maxDecide
		}
		r.Checks = append(r.Checks, c.outcome(policyName, fmt.Sprintf("%q, p50", command), "µs", at(0.5), at(0.25), at(0.75)))
	}
}
