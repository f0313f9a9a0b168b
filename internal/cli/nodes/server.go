package nodes

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/fleet/hub"
	"github.com/corral-exec/corral/internal/reach"
)

func (a commands) serverConfig() *cobra.Command {
	var gateways, allow []string
	cmd := &cobra.Command{
		Use: "server-config [flags]", Short: "Print what the configuration of a NATS server of your own needs",
		Long: `Print what the configuration of a NATS server needs that nats.url names, in its
own syntax: the keys of the gateway and of its nodes, each with the subjects that
it may use. A machine that is to ask has to be in it as well: corral node status
says its key. Without a gateway that runs, the nodes are those that the last one
left.`,
		Example: `  corral nodes server-config >/etc/nats/corral.conf    # and: include corral.conf
  corral nodes server-config --allow UKEY`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Config()
			if err != nil {
				return err
			}
			if len(gateways) == 0 {
				if gateways, err = a.gatewayKeys(c); err != nil {
					return err
				}
			}
			nodes, err := a.knownNodes(cmd)
			if err != nil {
				return err
			}
			text, err := hub.ServerConfig(gateways, c.NATS.Shared.Value, nodes, allow)
			if err != nil {
				return err
			}
			return a.PrintLine(strings.TrimSuffix(text, "\n"))
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&gateways, "gateway-key", nil, "`KEY`: public nkey of a gateway's user; may be repeated (default the one in nats.creds)")
	f.StringArrayVar(&allow, "allow", nil, "`KEY`: public nkey of a machine that may ask to be a node; may be repeated")
	return cmd
}

// gatewayKeys is the key of the gateway's user at the server that is configured.
func (a commands) gatewayKeys(c *config.Config) ([]string, error) {
	x := daemon.MessageServer(c)
	if x.Creds == "" {
		return nil, corral.Errorf(corral.ErrInvalid, "give --gateway-key, or set nats.creds", "it is not known which key the gateway connects with")
	}
	key, err := x.Key()
	return []string{key}, err
}

// knownNodes are those of the gateway that runs, or that the last one left.
func (a commands) knownNodes(cmd *cobra.Command) ([]client.Node, error) {
	var list client.Nodes
	err := a.WithGateway(cmd.Context(), func(ctx context.Context, c *client.Client) (err error) {
		list, err = c.Nodes(ctx)
		return err
	})
	if err == nil && len(list.Listen) > 0 {
		return slices.DeleteFunc(list.Nodes, func(n client.Node) bool { return n.Kind == client.NodeSSH }), nil
	}
	if err != nil && !errors.Is(err, reach.ErrNoGateway) && !errors.Is(err, corral.ErrNotFound) {
		return nil, err
	}
	dir, err := a.StateDir()
	if err != nil {
		return nil, err
	}
	return hub.Kept(filepath.Join(dir, daemon.NodesDir))
}
