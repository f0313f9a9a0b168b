package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/session"
)

// findGateway says where the gateway is that commands are sent to.
func (a *app) findGateway() (client.Options, *daemon.Record, error) {
	p, err := a.place()
	if err != nil {
		return client.Options{}, nil, err
	}
	return p.Find()
}

// place is where a gateway is looked for.
func (a *app) place() (reach.Place, error) {
	dir, err := a.stateDir()
	named := a.stateFlag != "" || a.getenv("CORRAL_STATE_DIR") != ""
	return reach.Place{StateDir: dir, Named: named, Getenv: a.getenv}, err
}

// addAgentFlag defines whose sessions they are.
func (a *app) addAgentFlag(cmd *cobra.Command, agent *string) {
	f := cmd.Flags()
	f.StringVar(agent, "agent", session.DefaultAgent, "`NAME`: whose sessions")
	fromEnvironment(f, "agent")
	cmdline.Must(cmd.RegisterFlagCompletionFunc("agent", a.completeAgents))
}

// connect returns a client of the gateway.
func (a *app) connect(agent string) (*client.Client, error) {
	o, _, err := a.findGateway()
	if err != nil {
		return nil, err
	}
	actFor(&o, agent)
	o.Retry = reach.AwayLimit
	return client.New(o)
}

// actFor has a client act for an agent, or, if none was named, for the only one that its
// key is for.
func actFor(o *client.Options, agent string) {
	if o.Agent == "" || agent != session.DefaultAgent {
		o.Agent = agent
	}
}

// withClient calls do with a client of the gateway. The first signal ends it.
func (a *app) withClient(ctx context.Context, agent string, do func(context.Context, *client.Client) error) error {
	return foreground.UntilSignal(ctx, func(ctx context.Context) (err error) {
		c, err := a.connect(agent)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		return do(ctx, c)
	})
}
