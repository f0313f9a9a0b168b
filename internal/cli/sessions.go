package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/session"
)

func (a *app) killCommand() *cobra.Command {
	var agent, signal string
	cmd := &cobra.Command{
		Use: "kill [flags] ID...", Short: "End sessions", SuggestFor: []string{"stop"},
		Long: `End sessions: SIGTERM to the whole process tree, and SIGKILL to what is left of it
after a while. It returns when they have ended. With --signal only that signal
is sent.`,
		Args: cmdline.AtLeastOne("ID of a session"), ValidArgsFunction: a.completeSessions(0, new(true)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var number corral.Signal
			if signal != "" {
				var err error
				if number, err = corral.ParseSignal(signal); err != nil {
					return err
				}
			}
			return a.withClient(cmd.Context(), agent, func(ctx context.Context, c *client.Client) error {
				return a.printKilled(each(args, func(id string) (string, error) {
					p, err := reach.Session(ctx, c, id)
					if err != nil {
						return "", err
					}
					return p.Info().ID, kill(ctx, p, number)
				}))
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&signal, "signal", "s", "", "`SIGNAL`: send this one, such as INT or 9, and do not wait")
	a.addAgentFlag(cmd, &agent)
	addJSONFlag(cmd)
	cmdline.Must(cmd.RegisterFlagCompletionFunc("signal", cobra.FixedCompletions([]string{"HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP", "WINCH"}, noFiles)))
	return cmd
}

func kill(ctx context.Context, p *client.Process, number corral.Signal) error {
	if number != 0 {
		return p.Signal(ctx, number)
	}
	_, err := p.Kill(ctx)
	return err
}

func (a *app) printKilled(ids []string, err error) error {
	if a.json() {
		return a.printJSON(struct {
			Killed []string `json:"killed"`
			failure
		}{ids, newFailure(err)}, err)
	}
	for _, id := range ids {
		if a.quiet {
			break
		}
		if werr := a.printLine(id); werr != nil {
			return errors.Join(err, werr)
		}
	}
	return err
}

func (a *app) waitCommand() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "wait [flags] ID", Short: "Wait for the end of a session",
		Long: `Wait for the end of a session, also across restarts of the gateway. The exit code
is the command's, as that of corral exec. With --json how it ended is printed.`,
		Args: oneSession, ValidArgsFunction: a.completeSessions(1, nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSession(cmd.Context(), agent, args[0], func(ctx context.Context, p *client.Process) error {
				// What Wait has to say the status says as well.
				if _, err := p.Wait(ctx); err != nil && !errors.Is(err, corral.ErrLost) && !errors.Is(err, corral.ErrNotFound) {
					return err
				}
				st, err := p.Status(ctx)
				if err != nil {
					return err
				}
				if a.json() {
					return a.printJSON(st, sessionEnd(st))
				}
				return sessionEnd(st)
			})
		},
	}
	a.addAgentFlag(cmd, &agent)
	return withJSON(cmd)
}

// sessionEnd is the error that has the exit code of a session that has ended.
func sessionEnd(st session.Status) error {
	switch {
	case st.Exit == nil && st.State == session.Unknown:
		return corral.Errorf(corral.ErrLost, "", "it is not known how the session %s ended: %s", st.ID, st.Detail)
	case st.Exit == nil:
		return corral.Errorf(corral.ErrUnavailable, "it is safe to begin it again", "the session %s never began: %s", st.ID, st.Detail)
	case st.Exit.Reason == corral.ReasonTimeout:
		return &exitError{exitTimeout, "the session " + st.ID + " ran out of time and was ended"}
	case st.Exit.Reason == corral.ReasonOOM && st.Exit.Signal != 0:
		return &exitError{exitSignal + int(st.Exit.Signal), "the session " + st.ID + " was killed because there was no memory left"}
	case st.Exit.Signal != 0:
		return &exitError{exitSignal + int(st.Exit.Signal), ""}
	case st.Exit.Code != 0:
		return &exitError{st.Exit.Code, ""}
	}
	return nil
}
