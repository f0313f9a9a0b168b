package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/session"
)

// shellText is the command: the shell that people like best of those that the
// image has. It is begun by a login shell, whose environment it has: one more
// profile would take from PATH what was put before it.
const shellText = `if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh`

func (a commands) sandboxShell() *cobra.Command {
	o := &execFlags{}
	cmd := &cobra.Command{
		Use: "shell [flags] [NAME]", Short: "Open a shell in a sandbox",
		Long: `Open an interactive login shell in a sandbox: bash if the image has it, else sh.
It is a command like any other, as of corral exec -t -i --host sandbox, with the
environment, the user and the limits that commands have there, and without a
limit of time. Leave it with exit or Ctrl-D.

NAME is a sandbox that there is; or say whose it is with --agent, and with
--session if each has its own (default the agent main's). If a gateway runs, it
is the gateway's, and the shell is one of its sessions. Without one, give the
flags that commands of the sandbox are given.`,
		Example: "  corral sandbox shell main\n  corral sandbox shell --agent main --session telegram:123",
		Args:    cmdline.AtMost(1), ValidArgsFunction: a.CompleteKnownSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.localGiven = o.local
			o.shape = app.OnlyGiven(cmd.Flags(), app.SandboxShape)
			o.wanted = app.OnlyGiven(cmd.Flags(), []string{"agent", "session"})
			if len(args) > 0 && len(o.wanted) > 0 {
				return corral.Errorf(corral.ErrInvalid, "leave out one of them", "%s and --%s both say which sandbox", args[0], o.wanted[0])
			}
			if len(args) > 0 {
				if err := a.shellOf(cmd.Context(), o, args[0]); err != nil {
					return err
				}
			}
			o.host, o.pty, o.stdin, o.stdinGiven = string(corral.HostSandbox), true, true, true
			a.TurnSandboxOn(cmd.Flags())
			return a.exec(cmd.Context(), o, []string{shellText}, false)
		},
	}
	a.AddSandboxesFlags(cmd)
	a.AddAgentFlag(cmd, &o.agent)
	cmd.Flags().Lookup("agent").Usage = "`NAME`: whose sandbox"
	a.addConversationFlag(cmd, &o.session)
	app.AddLocalFlag(cmd, &o.local)
	return cmd
}

// addConversationFlag defines in which conversation a command is run.
func (a commands) addConversationFlag(cmd *cobra.Command, key *string) {
	cmd.Flags().StringVar(key, "session", "", "`KEY`: the conversation, where each has a sandbox of its own (sandbox.scope)")
}

// shellOf has o be about a sandbox by its name.
func (a commands) shellOf(ctx context.Context, o *execFlags, name string) error {
	if o.local {
		return a.shellHere(o, name)
	}
	return a.KeptSandboxes(ctx, false, func(ctx context.Context, k gateway.Sandboxes, remote bool) error {
		if !remote {
			return a.shellHere(o, name)
		}
		s, err := k.Get(ctx, name)
		if err != nil {
			return err
		}
		return a.shellThere(o, s)
	})
}

// shellHere is for a sandbox of the state directory.
func (a commands) shellHere(o *execFlags, name string) error {
	dir, err := a.StateDir()
	if err != nil {
		return err
	}
	s, err := sandbox.Find(dir, name)
	if err != nil {
		return err
	}
	o.local, o.agent = true, app.OwnerOf(s)
	a.Settings.Name, a.Settings.Owner, a.Settings.Key = s.Name, s.Owner, s.Key
	return nil
}

// shellThere is for a sandbox of the gateway. Commands are sent to an agent's, and
// not to one of a name: that has to be it.
func (a commands) shellThere(o *execFlags, s api.Sandbox) error {
	if s.Scope == "" { // corral exec made it
		return a.shellHere(o, s.Name)
	}
	c, err := a.Config()
	if err != nil {
		return err
	}
	o.agent, o.session = s.Agent, s.Session
	if s.Scope == string(config.ScopeShared) {
		o.agent = session.DefaultAgent
	}
	o.wanted = []string{"agent"}
	if now := daemon.SandboxName(c.Agent(o.agent).Sandbox.Scope.Value, o.agent, o.session); now != s.Name {
		return corral.Errorf(corral.ErrUnavailable, "corral sandbox shell "+now+", or remove the old one: corral sandbox rm "+s.Name,
			"no command goes to the sandbox %s any more: since sandbox.scope was changed those of agent %s go to %s", s.Name, o.agent, now)
	}
	return nil
}
