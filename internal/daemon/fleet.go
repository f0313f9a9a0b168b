package daemon

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/hub"
	"github.com/corral-exec/corral/policy/approval"
)

// NodesDir is where the nodes of a gateway are, in the state directory.
const NodesDir = "nodes"

// MessageServer is the one that the configuration names; without a URL, none.
func MessageServer(c *config.Config) broker.External {
	return broker.External{URL: c.NATS.URL.Value, Creds: config.ExpandHome(c.NATS.Creds.Value, AccountHome()), Cert: c.NATS.Cert.Value}
}

// sshNodes are the hosts that commands may go to by SSH.
func (h *hosts) sshNodes() []api.Node {
	var list []api.Node
	for _, l := range h.ssh.List() {
		state := api.NodeUnknown
		if l.Connected {
			state = api.NodeOnline
		}
		list = append(list, api.Node{ID: l.Name, Kind: api.NodeSSH, Name: l.Name, State: state})
	}
	return list
}

// openNodes listens for nodes, if the flags or the configuration say so, and
// returns the approvals that other gateways have as well, if there are any. It is a
// sharing.
func (s *Gateway) openNodes(c *config.Config) (approval.Store, string, error) {
	cfg := hub.Config{
		Dir:       filepath.Join(s.dir, NodesDir),
		Listen:    cmp.Or(s.opt.Nodes, c.Nodes.Listen.Value),
		WebSocket: cmp.Or(s.opt.WebSocket, c.Nodes.WebSocket.Value),
		Advertise: cmp.Or(s.opt.Advertise, c.Nodes.Advertise.Value),
		Log:       s.log,
	}
	if x := MessageServer(c); x.URL != "" {
		cfg.External = &hub.External{External: x, Shared: c.NATS.Shared.Value}
	}
	if cfg.Listen == "" && cfg.WebSocket == "" && cfg.External == nil {
		return nil, "", nil
	}
	var err error
	if s.hub, err = hub.Open(cfg); err != nil {
		return nil, "", err
	}
	s.log.Info("the gateway listens for nodes", "addresses", s.hub.Listens())
	return s.hub.Approvals(context.Background())
}

// alone is the sharing of a gateway that has no others beside it.
func alone(*config.Config) (approval.Store, string, error) { return nil, "", nil }
