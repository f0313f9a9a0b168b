package sandboxes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/gateway/ports"
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
			return a.forward(cmd.Context(), agent, list, func(ctx context.Context, c *client.Client) (*client.Client, portJoin, error) {
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
			return commands{a}.forward(cmd.Context(), agent, list, func(_ context.Context, c *client.Client) (*client.Client, portJoin, error) {
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
func parseForwards(cmd *cobra.Command, kind string, args []string) (list []*Forward, err error) {
	if len(args) < 2 {
		return nil, corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "%s wants the name of a %s and at least one port", cmd.CommandPath(), kind)
	}
	for _, arg := range args[1:] {
		f, err := parseForward(arg)
		if err != nil {
			return nil, err
		}
		if f.name = args[0]; kind == "node" {
			f.Node = f.name
		} else {
			f.Sandbox = f.name
		}
		list = append(list, f)
	}
	return list, nil
}

// A Forward is a port of this machine that leads to one inside a sandbox, or of a node.
type Forward struct {
	Sandbox string `json:"sandbox,omitempty"`
	Node    string `json:"node,omitempty"`
	Port    int    `json:"port"`    // inside
	Address string `json:"address"` // on this machine

	name     string // of either
	local    int
	listener net.Listener
}

// parseForward reads PORT[:LOCAL].
func parseForward(text string) (*Forward, error) {
	inside, local, both := strings.Cut(text, ":")
	if !both {
		local = inside
	}
	f := &Forward{}
	var err, lerr error
	f.Port, err = ports.Number(inside)
	if local != "0" { // which is any that is free
		f.local, lerr = ports.Number(local)
	}
	if err != nil || lerr != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "write the port inside the sandbox, and after a colon that of this machine: 8080, 8080:80 or 8080:0", "%.40q is no port to forward", text)
	}
	return f, nil
}

// A portJoin joins a connection with a port of a sandbox or node, and closes it.
type portJoin func(ctx context.Context, conn *net.TCPConn, port int) error

// forward serves until ctx ends or the first signal. find says how connections
// are joined with ports, by the client or another one.
func (a commands) forward(ctx context.Context, agent string, list []*Forward, find func(context.Context, *client.Client) (*client.Client, portJoin, error)) error {
	err := a.WithClient(ctx, agent, func(ctx context.Context, c *client.Client) error {
		other, join, err := find(ctx, c)
		if err != nil {
			return err
		}
		if other != c {
			defer other.Close()
		}
		defer func() {
			for _, f := range list {
				if f.listener != nil {
					f.listener.Close()
				}
			}
		}()
		for _, f := range list {
			f.listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.local)))
			if err != nil {
				return corral.Errorf(corral.ErrUnavailable, fmt.Sprintf("give another port of this machine: %d:0 takes any that is free", f.Port), "cannot listen for port %d: %w", f.Port, err)
			}
			f.Address = f.listener.Addr().String()
		}
		for _, f := range list {
			if a.JSON() {
				err = a.PrintJSON(f, nil)
			} else {
				err = a.PrintLine(fmt.Sprintf("%s leads to port %d of %s", f.Address, f.Port, f.name))
			}
			if err != nil {
				return err
			}
		}
		by := map[net.Listener]*Forward{}
		for _, f := range list {
			by[f.listener] = f
		}
		return foreground.Accept(ctx, slices.Collect(maps.Keys(by)), func(ctx context.Context, l net.Listener, conn net.Conn) error {
			return join(ctx, conn.(*net.TCPConn), by[l].Port)
		}, func(l net.Listener, err error) { a.warnForward(by[l], err) })
	})
	if interruptedByUser(err) { // as it is meant to end
		return nil
	}
	return err
}

func (a commands) warnForward(f *Forward, err error) {
	text := fmt.Sprintf("A connection to port %d of %s: %v", f.Port, f.name, err)
	if errors.Is(err, corral.ErrNotListening) || errors.Is(err, errors.ErrUnsupported) {
		text = err.Error()
	}
	if hint := corral.Hint(err); hint != "" {
		text += " (" + hint + ")"
	}
	a.Warn(text)
}
