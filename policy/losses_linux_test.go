package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/policy"
)

// The decision warns that a domain takes privileges away from setuid programs, and the
// warning goes with the domain to the result.
func TestLosses(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain, setuid, setgid := file("plain", 0o755), file("setuid", 0o755|os.ModeSetuid), file("setgid", 0o755|os.ModeSetgid)
	none := []string{}
	for _, c := range []struct {
		text string
		rule policy.Rule
		want []string // which programs lose privileges
	}{
		{plain, policy.Rule{Pattern: plain, Runs: none}, nil},
		{setuid, policy.Rule{Pattern: setuid, Runs: none}, []string{setuid}},
		{setuid + " | " + setuid, policy.Rule{Pattern: setuid, Runs: none}, []string{setuid}},
		{setgid, policy.Rule{Pattern: setgid, Runs: none}, []string{setgid}},
		{plain, policy.Rule{Pattern: plain, Runs: []string{setuid, dir + "/"}}, []string{setuid}},
		{setuid, policy.Rule{Pattern: setuid, Runs: []string{policy.RunsAny}, Writes: []string{policy.RunsAny}}, nil},
	} {
		c.rule.Action = policy.Allow
		rules := policy.Rules{
			Security: policy.Setting[policy.Security]{Value: policy.SecurityAllowlist}, Ask: policy.Setting[policy.Ask]{Value: policy.AskOnMiss},
			Enforce: policy.Setting[policy.Enforce]{Value: policy.EnforceTry}, List: []policy.Rule{c.rule},
		}
		d := policy.Decide(policy.Request{Command: c.text, Shell: []string{"/bin/bash", "-c"}, Dir: dir, Path: "/usr/bin:/bin"}, rules, policy.OS{})
		if d.Outcome != policy.Allowed {
			t.Fatalf("%s: %s: %s", c.text, d.Outcome, d.Reason)
		}
		got := d.Enforce.Warnings
		if dom := d.Enforce.Domain; dom != nil && strings.Join(dom.Lost, "") != strings.Join(got, "") || dom == nil && got != nil {
			t.Errorf("%s: the domain has %q, and the decision %q", c.text, dom.Lost, got)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s with %+v: %q", c.text, c.rule, got)
			continue
		}
		for i, program := range c.want {
			if !strings.HasPrefix(got[i], program+" does not get the privileges") {
				t.Errorf("%s: %q", c.text, got[i])
			}
		}
	}
}
