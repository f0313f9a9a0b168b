package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
)

// initResult is what corral init --json prints.
type initResult struct {
	File    string `json:"file"`
	Sandbox string `json:"sandbox"` // sandbox.mode that was written
	Why     string `json:"why"`     // one line
	Next    string `json:"next"`    // one line
}

func (a *app) initCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "init [flags]", Short: "Write a first configuration",
		Long: `Write a first configuration, with comments and strict settings: commands run in
the sandbox, or on this machine after an approval, and nothing that is meant for
the sandbox runs outside of it.

The sandbox is turned on if a container engine answers. A configuration that is
there stays as it is.`,
		Example: `  corral init
  corral init --config ./corral.json5`,
		Args: noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := a.writableConfig()
			if err != nil {
				return err
			}
			r := a.initial(cmd.Context(), file)
			if _, err := config.Create(file, []byte(firstConfig(r.Sandbox))); err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(r, nil)
			}
			return a.show(fmt.Sprintf("Wrote %s.\nSandbox: %s, since %s.\nNext: %s", r.File, r.Sandbox, r.Why, r.Next))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// initial decides on a first configuration.
func (a *app) initial(ctx context.Context, file string) initResult {
	ctx, cancel := context.WithTimeout(ctx, doctor.AskLimit)
	defer cancel()
	var facts doctor.EngineFacts
	err := a.withEngine(ctx, func(ctx context.Context, eng daemon.Engine) (err error) {
		facts, err = eng.Facts(ctx)
		return err
	})
	if err != nil {
		return initResult{
			File: file, Sandbox: daemon.ModeOff, Why: "no container engine answers: " + inFlags(err.Error()),
			Next: "start an engine (corral doctor helps), then: corral config set sandbox.mode all",
		}
	}
	return initResult{
		File: file, Sandbox: daemon.ModeAll, Why: fmt.Sprintf("%s %s answers at %s", facts.Name, facts.Version, facts.Address),
		Next: "corral exec --host sandbox 'echo hello', or corral gateway",
	}
}

// firstConfig is the text of a first configuration.
func firstConfig(mode string) string {
	return strings.Replace(firstConfigText, "MODE", mode, 1)
}

const firstConfigText = `// The configuration of Corral, in JSON5. docs/reference/config.md explains every
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
