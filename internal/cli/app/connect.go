package app

import (
	"cmp"
	"context"
	"errors"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/session"
)

// FindGateway says where the gateway is that commands are sent to.
func (a *App) FindGateway() (client.Options, *daemon.Record, error) {
	p, err := a.Place()
	if err != nil {
		return client.Options{}, nil, err
	}
	return p.Find()
}

// Place is where a gateway is looked for.
func (a *App) Place() (reach.Place, error) {
	dir, err := a.StateDir()
	named := a.StateFlag != "" || a.Getenv("CORRAL_STATE_DIR") != ""
	return reach.Place{StateDir: dir, Named: named, Getenv: a.Getenv}, err
}

// AddAgentFlag defines whose sessions they are.
func (a *App) AddAgentFlag(cmd *cobra.Command, agent *string) {
	f := cmd.Flags()
	f.StringVar(agent, "agent", session.DefaultAgent, "`NAME`: whose sessions")
	FromEnvironment(f, "agent")
	cmdline.Must(cmd.RegisterFlagCompletionFunc("agent", a.CompleteAgents))
}

// Connect returns a client of the gateway.
func (a *App) Connect(agent string) (*client.Client, error) {
	o, _, err := a.FindGateway()
	if err != nil {
		return nil, err
	}
	ActFor(&o, agent)
	o.Retry = reach.AwayLimit
	return client.New(o)
}

// ActFor has a client act for an agent, or, if none was named, for the only one that its
// key is for.
func ActFor(o *client.Options, agent string) {
	if o.Agent == "" || agent != session.DefaultAgent {
		o.Agent = agent
	}
}

// WithClient calls do with a client of the gateway. The first signal ends it.
func (a *App) WithClient(ctx context.Context, agent string, do func(context.Context, *client.Client) error) error {
	return foreground.UntilSignal(ctx, func(ctx context.Context) (err error) {
		c, err := a.Connect(agent)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		return do(ctx, c)
	})
}

// WithGateway calls do with a client for what is of no agent.
func (a *App) WithGateway(ctx context.Context, do func(context.Context, *client.Client) error) error {
	return a.WithClient(ctx, session.DefaultAgent, do)
}

// WhoAnswers is who answers from this command line.
func (a *App) WhoAnswers() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return cmp.Or(a.Getenv("USER"), "the command line")
}
