// Package approval keeps people's decisions about commands: lasting rules in a [File],
// and approvals of single commands at the [Desk].
//
// # The file
//
// A host has one file, exec-approvals.json. It says how strict the host is and
// has rules, each for an agent, for main (the agent without a name) or for all
// ("*"):
//
//	{ "version": 1,
//	  "defaults": { "security": "allowlist", "ask": "on-miss", "askFallback": "deny" },
//	  "agents": {
//	    "*":    { "denylist": [ "rm -rf" ] },
//	    "main": { "ask": "always",
//	              "asklist": [ { "pattern": "git push", "reason": "it is public" } ],
//	              "allowlist": [ { "pattern": "/usr/bin/git status" },
//	                             { "pattern": "/usr/bin/python3", "args": ["run.py"], "sha256": "…" } ] } } }
//
// Unknown fields are kept when the file is written again. A file that cannot be read or
// understood allows nothing, until it is mended. A missing file has no rules.
//
// # The desk
//
// The guard asks the desk for an approval and gets a record with an ID and a slug. People
// answer; the first answer counts. An approval can be used by one command only, and only
// if everything in its [Binding] is unchanged: the command, the directory, the
// environment, the programs and the script that it runs. Every change is stored before it
// counts: in a directory, or in a [Store] that the desks of several gateways share.
//
// This package does not decide on commands (see package policy), does not know
// who may answer, and runs nothing.
package approval
