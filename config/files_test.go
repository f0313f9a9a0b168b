package config

// goodFiles are files without a mistake.
var goodFiles = []string{
	`{}`,
	`// nothing yet
	{ /* … */ }`,
	`{ $schema: "https://corral.example/config.schema.json" }`,
	`{ sandbox: { mode: "all", required: true, scope: "session", image: "debian:12", runtime: "runsc", driver: "frames", workspaceAccess: "rw", user: "1000:1000", memory: "512m", cpus: .5, pids: 0x100 } }`,
	`{ sandbox: { memory: 536870912, cpus: "unlimited", pids: "unlimited" } }`,
	`{ sandbox: { memory: "unlimited" } }`, `{ sandbox: { memory: "1.5GiB" } }`, `{ sandbox: { memory: "6291456" } }`, `{ sandbox: { cpus: 4096, pids: 4194304 } }`,
	`{ tools: { allow: ["exec", "group:runtime", "*"], deny: [] } }`,
	`{ tools: { exec: { host: "gateway", security: "full", ask: "off", askFallback: "full", node: "mac-1" } } }`,
	`{ tools: { exec: { pathPrepend: ["~/bin", "/opt/oss/bin", " ~ "], envPath: "replace", envAllow: ["GH_TOKEN", "_x"] } } }`,
	`{ tools: { exec: { safeBins: [], safeBinDirs: ["/opt/bin"], safeBinProfiles: { jq: { minPositional: 0, maxPositional: 1, allowedValueFlags: ["--arg"], allowedFlags: ["-r"], deniedFlags: ["-f"] }, x: {} } } } }`,
	`{ tools: { exec: { allowlist: { chaining: "each", redirections: "harmless" }, rules: [{ allow: "/usr/bin/git status" }, { deny: "rm -rf", reason: "no" }, { ask: "git push", argPattern: "^push( |$)" }] } } }`,
	`{ tools: { exec: { enforce: "require", rules: [{ allow: "/usr/bin/git fetch", runs: ["/usr/bin/ssh", "~/bin/"], writes: ["/srv/out"] }, { allow: "/a", runs: "none", writes: "any" }, { allow: "/b", runs: "any" }] } } }`,
	`{ tools: { exec: { notifyOnExit: false, approvalRunningNoticeMs: 0, yieldMs: 10, timeout: 0 } } }`,
	`{ tools: { exec: { approvalRunningNoticeMs: 3600000, yieldMs: 120000, timeout: 31536000 } } }`,
	`{ tools: { exec: { timeout: 0.25, applyPatch: { enabled: true, allowModels: ["gpt-5.2"], workspaceOnly: true } } } }`,
	`{ tools: { elevated: { enabled: false, allowFrom: ["*"], default: "full" } } }`, `{ tools: { elevated: { allowFrom: { telegram: ["id:1"], "*": [] } } } }`,
	`{ tools: { runShellCommand: { enabled: true, profile: "asimi", coreTools: ["run_shell_command(git)"], excludeTools: ["run_shell_command(rm)"] } } }`,
	`{ commands: { allowFrom: { discord: ["username:@kim", "tag:kim#1"] } }, approvals: { file: "~/approvals.json", expirySeconds: 1 } }`,
	`{ gateway: { listen: "127.0.0.1:65535", socket: "/run/corral.sock", hosts: ["corral.example"], origins: ["https://a.example:8443", "http://b"] } }`,
	`{ agents: { defaults: { unattended: true, workspace: "/srv", sandbox: { mode: "all" }, tools: { deny: ["process"] } }, list: [{ id: "main" }, { id: "other", workspace: "~/日本", tools: { exec: { ask: "always" } } }] } }`,
	`{ agents: { list: [] } }`, `{ agents: {} }`,
}

// A badFile has the mistakes that are said, with their places, one a line.
type badFile struct{ text, says string }

var badFiles = []badFile{
	{`[]`, `f:1:1: it is a list; use an object { … }`},
	{`{ tools: { exec: { security: "ful" } } }`, `f:1:30: tools.exec.security: there is no "ful"; use deny, allowlist, full`},
	{"{\n  tools: {\n    exec: {\n      ask: 'never', // no\n      host: \"auto\",\n    },\n  },\n}", "f:4:12: tools.exec.ask: there is no \"never\"; use off, on-miss, always\nf:5:13: tools.exec.host: there is no \"auto\"; use sandbox, gateway, node"},
	{`{ tool: {} }`, `f:1:3: tool: there is no such key; did you mean tools?`},
	{`{ tools: { exec: { notifyonexit: true } } }`, `f:1:20: tools.exec.notifyonexit: there is no such key; did you mean tools.exec.notifyOnExit?`},
	{`{ tools: { exec: { backgroundMs: 1, timeoutSec: 2 } } }`, "f:1:20: tools.exec.backgroundMs: there is no such key; it is called yieldMs here\nf:1:37: tools.exec.timeoutSec: there is no such key; it is called timeout here"},
	{`{ tools: { exec: { mode: "yolo" } } }`, `f:1:20: tools.exec.mode: there is no such key; tools.exec.host, tools.exec.security and tools.exec.ask say each of it`},
	{`{ sandbox: { docker: {} } }`, `f:1:14: sandbox.docker: there is no such key; image, memory, cpus, pids and user are keys of sandbox itself`},
	{`{ agents: { entries: {} } }`, `f:1:13: agents.entries: there is no such key; it is called list here`},
	{`{ commands: { useAccessGroups: true } }`, `f:1:15: commands.useAccessGroups: there is no such key; commands.allowFrom says who may use /exec`},
	{`{ gateway: { wqzx: 1 } }`, `f:1:14: gateway.wqzx: there is no such key; there are listen, tls, domain, socket, hosts, e2b, origins`},
	{`{ "": 1 }`, `f:1:3: a key is empty`},
	{`{ tools: null }`, `f:1:10: tools: it is null; use an object { … }`},
	{`{ tools: { exec: { timeout: "1800", yieldMs: 9, approvalRunningNoticeMs: 3600001, notifyOnExit: "yes", node: 7 } } }`,
		`f:1:29: tools.exec.timeout: it is the string "1800"; use a number (s)
f:1:46: tools.exec.yieldMs: 9 is out of range; use a number from 10 to 120000 ms
f:1:74: tools.exec.approvalRunningNoticeMs: 3600001 is out of range; use a number from 0 to 3600000 ms
f:1:97: tools.exec.notifyOnExit: it is the string "yes"; use true or false
f:1:110: tools.exec.node: it is the number 7; use a string`},
	{`{ tools: { exec: { timeout: NaN, yieldMs: Infinity } } }`, "f:1:29: tools.exec.timeout: it is the number NaN; use a number (s)\nf:1:43: tools.exec.yieldMs: it is the number +Inf; use a number (ms)"},
	{`{ tools: { exec: { timeout: 31536001 } } }`, `f:1:29: tools.exec.timeout: 31536001 is out of range; use a number from 0 to 31536000 s`},
	{`{ tools: { exec: { node: "  " } } }`, `f:1:26: tools.exec.node: it is blank; leave it out if there is nothing to say`},
	{`{ tools: { exec: { pathPrepend: "/bin" } } }`, `f:1:33: tools.exec.pathPrepend: it is the string "/bin"; use a list [ … ]`},
	{`{ tools: { exec: { pathPrepend: ["/ok", "~kim/bin"] } } }`, `f:1:41: tools.exec.pathPrepend[1]: cannot expand "~kim/bin" in pathPrepend`},
	{`{ tools: { exec: { pathPrepend: ["~x", 1] } } }`, "f:1:34: tools.exec.pathPrepend[0]: cannot expand \"~x\" in pathPrepend\nf:1:40: tools.exec.pathPrepend[1]: it is the number 1; use a string"},
	{`{ tools: { exec: { envAllow: ["A-B"], safeBins: ["/bin/jq"], safeBinDirs: ["bin"] } } }`, `f:1:31: tools.exec.envAllow[0]: "A-B" is not right; write something like GH_TOKEN
f:1:50: tools.exec.safeBins[0]: "/bin/jq" is not right; write something like jq
f:1:76: tools.exec.safeBinDirs[0]: "bin" is not right; write something like /opt/tools/bin`},
	{`{ tools: { exec: { safeBinProfiles: { jq: { maxPositional: 1.5, allowedFlags: ["r"], flags: [] } } } } }`, `f:1:60: tools.exec.safeBinProfiles.jq.maxPositional: it is the number 1.5; use a whole number
f:1:80: tools.exec.safeBinProfiles.jq.allowedFlags[0]: "r" is not right; write something like --lines
f:1:86: tools.exec.safeBinProfiles.jq.flags: there is no such key; there are minPositional, maxPositional, allowedValueFlags, allowedFlags, deniedFlags`},
	{`{ tools: { exec: { rules: [{ allow: "a", deny: "b" }, {}, { deny: "x", argPattern: "(" }, 1] } } }`, `f:1:28: tools.exec.rules[0]: a rule has one of the keys allow, ask and deny, and this one has 2 of them
f:1:55: tools.exec.rules[1]: a rule has one of the keys allow, ask and deny, and this one has 0 of them
f:1:84: tools.exec.rules[2].argPattern: it is no regular expression (RE2): error parsing regexp: missing closing ): ` + "`(`" + `
f:1:91: tools.exec.rules[3]: it is the number 1; use an object { … }`},
	{`{ tools: { exec: { enforce: true, rules: [{ allow: "/x", runs: "all", writes: ["out"] }, { deny: "x", runs: "none" }] } } }`, `f:1:29: tools.exec.enforce: it is true; use require, try, off
f:1:64: tools.exec.rules[0].runs: "all" is not right; write something like none, any
f:1:80: tools.exec.rules[0].writes[0]: "out" is not right; write something like /usr/bin/ssh
f:1:109: tools.exec.rules[1].runs: only a rule that allows says what its program may do; leave it out`},
	{`{ tools: { exec: { rules: [{ deny: "x", argPattern: "(" }] } } }`, "f:1:53: tools.exec.rules[0].argPattern: it is no regular expression (RE2): error parsing regexp: missing closing ): `(`"},
	{`{ tools: { exec: { rules: [{ allow: "/bin/rm -rf", args: ["-rf", "x"] }, { deny: "rm", args: "x" }] } } }`, `f:1:58: tools.exec.rules[0].args: args are all arguments, and the pattern has some as well; write them here alone
f:1:94: tools.exec.rules[1].args: it is the string "x"; use a list [ … ]`},
	{`{ tools: { deny: ["excec"] } }`, `f:1:19: tools.deny[0]: there is no "excec"; use exec, process, apply_patch, run_shell_command, group:runtime, *`},
	{`{ tools: { elevated: { allowFrom: "*" } } }`, `f:1:35: tools.elevated.allowFrom: it is the string "*"; use a list [ … ] or an object { … }`},
	{`{ tools: { elevated: { allowFrom: { telegram: "1" } } } }`, `f:1:47: tools.elevated.allowFrom.telegram: it is the string "1"; use a list [ … ]`},
	{`{ tools: { exec: { applyPatch: { workspaceOnly: false } } } }`, `f:1:49: tools.exec.applyPatch.workspaceOnly: it cannot be false: apply_patch keeps to the workspace, always; use exec for files elsewhere.`},
	{`{ tools: { exec: { applyPatch: { workspaceOnly: "no" } } } }`, `f:1:49: tools.exec.applyPatch.workspaceOnly: it is the string "no"; use true`},
	{`{ sandbox: { memory: "5m" } }`, `f:1:22: sandbox.memory: 5m is not between 6m and 8192t`},
	{`{ sandbox: { memory: 1, cpus: 0, pids: 1.5, user: "0:0" } }`, `f:1:22: sandbox.memory: 1 is out of range; use a number from 6291456 to 9007199254740992 bytes
f:1:31: sandbox.cpus: 0 is out of range; use a number from 0.01 to 4096 processors
f:1:40: sandbox.pids: it is the number 1.5; use a whole number (processes) or a string such as "unlimited"
f:1:51: sandbox.user: "0:0" is not right; it has to be UID:GID in numbers, neither of them root's, such as 1000:1000`},
	{`{ sandbox: { memory: "much", cpus: "all" } }`, `f:1:22: sandbox.memory: "much" is not right; write something like 512m, 2g, unlimited
f:1:36: sandbox.cpus: "all" is not right; use a number (processors) or a string such as "unlimited"`},
	{`{ agents: { list: [{ id: "a" }, { workspace: "relative" }, { id: "a" }] } }`, `f:1:33: agents.list[1].id: it is missing; the agent whose entry it is
f:1:46: agents.list[1].workspace: "relative" is not right; write something like /srv/checkout
f:1:66: agents.list[2].id: the agent "a" is there already, as agents.list[0]`},
	{`{ agents: { list: [{ id: "a" }, { id: "a" }] } }`, `f:1:39: agents.list[1].id: the agent "a" is there already, as agents.list[0]`},
	{`{ agents: { defaults: { id: "a" } } }`, `f:1:25: agents.defaults.id: there is no such key; there are workspace, unattended, sandbox, tools`},
	{`{ agents: { list: [{ id: "a", gateway: {} }] } }`, `f:1:31: agents.list[0].gateway: there is no such key; there are id, workspace, unattended, sandbox, tools`},
	{`{ gateway: { listen: "127.0.0.1:65536", e2b: { listen: "[::1]:99999" } }, nodes: { listen: ":70000" } }`, `f:1:22: gateway.listen: "127.0.0.1:65536" is not right; write something like 127.0.0.1:7777
f:1:56: gateway.e2b.listen: "[::1]:99999" is not right; write something like 127.0.0.1:3000
f:1:92: nodes.listen: ":70000" is not right; write something like 0.0.0.0:7422`},
	{`{ gateway: { listen: "7777", hosts: ["a:1"], origins: ["https://a/b"] }, approvals: { expirySeconds: 0, file: "x" } }`, `f:1:22: gateway.listen: "7777" is not right; write something like 127.0.0.1:7777
f:1:38: gateway.hosts[0]: "a:1" is not right; write something like corral.example
f:1:56: gateway.origins[0]: "https://a/b" is not right; write something like https://pages.example
f:1:102: approvals.expirySeconds: 0 is out of range; use a number from 1 to 2592000 s
f:1:111: approvals.file: "x" is not right; write something like /etc/corral/exec-approvals.json`},
}
