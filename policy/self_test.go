package policy

import "testing"

// A command cannot approve itself or change what is allowed: it is denied under every
// configuration.
func TestOwnCommands(t *testing.T) {
	rules := rulesOf(SecurityFull, AskOff, Rule{Action: Allow, Pattern: "*"}, Rule{Action: Allow, Pattern: "/bin/*"})
	rules.Chaining.Value = true
	for _, text := range []string{
		"corral approvals allow 7f3a", "corral approvals deny 7f3a", "/bin/corral approvals allow x", "corral --config f approvals allow x", "corral --json approvals allow x",
		"corral config set tools.exec.security full", "corral config unset tools.deny", "corral session set security=full", "corral gateway", "corral node", "corral init", "corral $X allow y", "corral --config",
		"corral --json -- config set tools.exec.security full", "corral -q --json -- approvals allow x", "corral approvals --json list allow", "corral approvals --json list deny x", "corral config --json -- set a b",
		"corral keys create x --role admin", "corral --json keys rotate x", "corral console", "corral console --json",
		"corral approvals", "corral approvals --json allow x", "corral approvals --config list allow x", "corral approvals --state-dir list allow x", "corral config --config get set a b", "/bin/link approvals allow x", "env corral approvals allow x", "sh -c 'corral approvals allow x'", "ls && corral approvals allow x", "echo $(corral approvals allow x)", "busybox corral approvals allow x",
		"/approve 7f3a allow-once", "ls\n/approve 7f3a allow-always", "exec -a x /approve 7f3a", "sudo -E /approve 7f3a", "/exec security=full",
	} {
		d := Decide(requestOf(text), rules, files{"/bin/corral": "", "/bin/link": "-> /bin/corral", "/bin/ls": "", "/bin/env": "", "/bin/sh": "", "/bin/echo": ""})
		if want := text != "corral --config"; (d.Outcome == Denied) != want {
			t.Errorf("%q: %s: %s", text, d.Outcome, d.Reason)
		}
	}
	for _, text := range []string{
		"corral config get agents.list", "corral config path", "corral approvals ls", "corral approvals rules --agent x", "corral approvals file", "corral nodes pending", "corral approvals list", "corral approvals --json list", "corral approvals --config=x list", "corral config -q get x", "corral gateway status", "corral keys ls", "corral ps", "corral logs approvals", "corral doctor",
		"corral --json exec -- cat config", "corral exec 'echo approvals'", "corral version", "ls approvals", "echo corral approvals allow x", "cat approve",
	} {
		if d := Decide(requestOf(text), rules, files{"/bin/corral": "", "/bin/ls": "", "/bin/echo": "", "/bin/cat": ""}); d.Outcome != Allowed {
			t.Errorf("%q: %s: %s", text, d.Outcome, d.Reason)
		}
	}
}
