// Package approval keeps what people have said about commands: once and for all
// in a [File] of rules, and about one command at the [Desk].
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
// What is not known is kept when the file is written again. A file that cannot
// be read, or that says something that cannot be understood, allows nothing to
// them until it is mended; a file that is not there says nothing.
//
// # The desk
//
// Who needs an approval asks the desk for it and gets a record of it with an ID
// and a slug; who may answer, does; the first answer counts. What was allowed
// can be used by one command only, and only if all that it was bound to, the
// [Binding], is still the same: the command, the directory, the environment, the
// programs and the script that it runs. All of it is on disk before it counts: in a
// directory, or in a [Store] that the desks of several gateways have in common.
//
// This package does not decide on commands (see package policy), does not know
// who may answer, and runs nothing.
package approval
