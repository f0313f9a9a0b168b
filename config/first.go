package config

import "strings"

// First is the text of a first configuration, with comments and strict settings.
func First(mode string) string {
	return strings.Replace(firstText, "MODE", mode, 1)
}

const firstText = `// The configuration of Corral, in JSON5. docs/reference/config.md explains every
// key, and corral config schema lists them. After a change: corral config validate.
// Changes count from the next command on; while there is a mistake in this file
// nothing may run.
{
  sandbox: {
    // all: commands run in a hardened container. off: there is none.
    mode: "MODE",
    // While it is off, refuse what is meant for it instead of running it on this
    // machine without a container and without approval.
    required: true,
    // What a container may do with the workspace: none, ro or rw.
    workspaceAccess: "none",
    // memory: "2g", cpus: 2, pids: 512,
  },

  tools: {
    exec: {
      // For commands on this machine and on nodes: what a rule allows may run,
      // anything else needs an approval, and is denied if nobody gives it.
      security: "allowlist",
      ask: "on-miss",
      askFallback: "deny",

      // Deny beats ask, ask beats allow. An allow rule names a path.
      rules: [
        // { allow: "/usr/bin/git status" },
        // { ask: "git push", reason: "others see it" },
        // { deny: "rm -rf" },
      ],
    },

    // Nobody leaves the sandbox by asking for it.
    elevated: { enabled: false },
  },

  agents: {
    // defaults: { workspace: "~/work" },
    list: [
      // { id: "nightly", unattended: true, tools: { exec: { security: "deny" } } },
    ],
  },
}
`
