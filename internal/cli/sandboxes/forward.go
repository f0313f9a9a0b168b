package sandboxes

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/session"
)

func (a commands) sandboxForward() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "forward [flags] NAME PORT[:LOCAL]...", Short: "Reach ports inside a sandbox from this machine",
		Long: `Listen on ports of this machine (127.0.0.1), and connect what comes there to TCP
ports inside a sandbox, until Ctrl-C. The program inside may listen on 127.0.0.1,
and the sandbox needs no network.

Without LOCAL the port of this machine has the same number; with 0 it is any that
is free. The first lines of output say which; with --json each is a document. It
is the gateway that connects, so one has to run.`,
		Example: `  corral sandbox forward main 8080
  corral sandbox forward main 8080:80 5432:0`,
		ValidArgsFunction: app.First(a.CompleteKnownSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := parseForwards(cmd, "sandbox", args)
			if err != nil {
				return err
			}
			return a.forward(cmd.Context(), agent, list, func(ctx context.Context, c *client.Client) (*client.Client, foreground.PortJoin, error) {
				s, err := c.Sandbox(ctx, args[0])
				if err != nil {
					return nil, nil, err
				}
				if agent == "" && s.Agent != "" {
					if c, err = a.Connect(s.Agent); err != nil {
						return nil, nil, err
					}
				}
				return c, func(ctx context.Context, conn *net.TCPConn, port int) error {
					return c.JoinPort(ctx, conn, args[0], port)
				}, nil
			})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "`NAME`: whose sandbox it is (default its owner)")
	return app.WithJSON(cmd)
}

// NodesForward is corral nodes forward.
func NodesForward(a *app.App) *cobra.Command {
	agent := session.DefaultAgent
	cmd := &cobra.Command{
		Use: "forward [flags] NODE PORT[:LOCAL]...", Short: "Reach ports of a node from this machine",
		Long: `Listen on ports of this machine (127.0.0.1), and connect what comes there to TCP
ports of a node, until Ctrl-C: of the sandbox that the agent has there, if its
commands run in one, and else of the machine's loopback interface, as far as
node.ports in the node's configuration goes, which is nowhere by default.

LOCAL and the output are those of corral sandbox forward.`,
		Example: `  corral nodes forward builder 8080
  corral nodes forward builder 8080:80 5432:0`,
		ValidArgsFunction: a.CompleteNodes(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := parseForwards(cmd, "node", args)
			if err != nil {
				return err
			}
			return commands{a}.forward(cmd.Context(), agent, list, func(_ context.Context, c *client.Client) (*client.Client, foreground.PortJoin, error) {
				return c, func(ctx context.Context, conn *net.TCPConn, port int) error {
					return c.JoinNode(ctx, conn, args[0], port)
				}, nil
			})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", agent, "`NAME`: on whose behalf")
	return app.WithJSON(cmd)
}

// parseForwards reads the arguments of a command: the name of a sandbox or node (kind says
// which), and its ports.
func parseForwards(cmd *cobra.Command, kind string, args []string) (list []*foreground.Forward, err error) {
	if len(args) < 2 {
		return nil, corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "%s wants the name of a %s and at least one port", cmd.CommandPath(), kind)
	}
	for _, arg := range args[1:] {
		f, err := foreground.ParseForward(arg)
		if err != nil {
			return nil, err
		}
		if kind == "node" {
			f.Node = args[0]
		} else {
			f.Sandbox = args[0]
		}
		list = append(list, f)
	}
	return list, nil
}

// forward serves until ctx ends or the first signal. find says how connections
// are joined with ports, by the client or another one.
func (a commands) forward(ctx context.Context, agent string, list []*foreground.Forward, find func(context.Context, *client.Client) (*client.Client, foreground.PortJoin, error)) error {
	err := a.WithClient(ctx, agent, func(ctx context.Context, c *client.Client) error {
		other, join, err := find(ctx, c)
		if err != nil {
			return err
		}
		if other != c {
			defer other.Close()
		}
		ports, err := foreground.Listen(list)
		if err != nil {
			return err
		}
		defer ports.Close()
		for _, f := range list {
			if a.JSON() {
				err = a.PrintJSON(f, nil)
			} else {
				err = a.PrintLine(fmt.Sprintf("%s leads to port %d of %s", f.Address, f.Port, f.Of()))
			}
			if err != nil {
				return err
			}
		}
		return ports.Serve(ctx, join, a.Warn)
	})
	if interruptedByUser(err) { // as it is meant to end
		return nil
	}
	return err
}
