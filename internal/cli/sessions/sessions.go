package sessions

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/session"
)

func (a commands) killCommand() *cobra.Command {
	var agent, signal string
	cmd := &cobra.Command{
		Use: "kill [flags] ID...", Short: "End sessions", SuggestFor: []string{"stop"},
		Long: `End sessions: SIGTERM to the whole process tree, and SIGKILL to what is left of it
after a while. It returns when they have ended. With --signal only that signal
is sent.`,
		Args: cmdline.AtLeastOne("ID of a session"), ValidArgsFunction: a.CompleteSessions(0, new(true)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var number corral.Signal
			if signal != "" {
				var err error
				if number, err = corral.ParseSignal(signal); err != nil {
					return err
				}
			}
			return a.WithClient(cmd.Context(), agent, func(ctx context.Context, c *client.Client) error {
				return a.printKilled(app.Each(args, func(id string) (string, error) {
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
	a.AddAgentFlag(cmd, &agent)
	app.AddJSONFlag(cmd)
	cmdline.Must(cmd.RegisterFlagCompletionFunc("signal", cobra.FixedCompletions([]string{"HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP", "WINCH"}, app.NoFiles)))
	return cmd
}

func kill(ctx context.Context, p *client.Process, number corral.Signal) error {
	if number != 0 {
		return p.Signal(ctx, number)
	}
	_, err := p.Kill(ctx)
	return err
}

func (a commands) printKilled(ids []string, err error) error {
	if a.JSON() {
		return a.PrintJSON(struct {
			Killed []string `json:"killed"`
			app.Failure
		}{ids, app.NewFailure(err)}, err)
	}
	for _, id := range ids {
		if a.Quiet {
			break
		}
		if werr := a.PrintLine(id); werr != nil {
			return errors.Join(err, werr)
		}
	}
	return err
}

func (a commands) waitCommand() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "wait [flags] ID", Short: "Wait for the end of a session",
		Long: `Wait for the end of a session, also across restarts of the gateway. The exit code
is the command's, as that of corral exec. With --json how it ended is printed.`,
		Args: oneSession, ValidArgsFunction: a.CompleteSessions(1, nil),
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
				if a.JSON() {
					return a.PrintJSON(st, sessionEnd(st))
				}
				return sessionEnd(st)
			})
		},
	}
	a.AddAgentFlag(cmd, &agent)
	return app.WithJSON(cmd)
}

// sessionEnd is the error that has the exit code of a session that has ended.
func sessionEnd(st session.Status) error {
	switch {
	case st.Exit == nil && st.State == session.Unknown:
		return corral.Errorf(corral.ErrLost, "", "it is not known how the session %s ended: %s", st.ID, st.Detail)
	case st.Exit == nil:
		return corral.Errorf(corral.ErrUnavailable, "it is safe to begin it again", "the session %s never began: %s", st.ID, st.Detail)
	case st.Exit.Reason == corral.ReasonTimeout:
		return &app.ExitError{Code: app.ExitTimeout, Text: "the session " + st.ID + " ran out of time and was ended"}
	case st.Exit.Reason == corral.ReasonOOM && st.Exit.Signal != 0:
		return &app.ExitError{Code: app.ExitSignal + int(st.Exit.Signal), Text: "the session " + st.ID + " was killed because there was no memory left"}
	case st.Exit.Signal != 0:
		return &app.ExitError{Code: app.ExitSignal + int(st.Exit.Signal)}
	case st.Exit.Code != 0:
		return &app.ExitError{Code: st.Exit.Code}
	}
	return nil
}
