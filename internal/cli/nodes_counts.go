package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/doctor"
)

// nodeCounts are how many nodes a gateway has.
type nodeCounts struct {
	Listen  []string `json:"listen"` // where they connect to
	Online  int      `json:"online"`
	Offline int      `json:"offline"`
	Pending int      `json:"pending"`       // that ask to be nodes
	SSH     int      `json:"ssh,omitempty"` // hosts that are reached by SSH
	Away    []string `json:"-"`             // names of those that are offline
}

// countNodes asks a gateway for its nodes; nil if it has none and never will.
func countNodes(ctx context.Context, c *client.Client) (*nodeCounts, error) {
	got, err := c.Nodes(ctx)
	if errors.Is(err, corral.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(got.Listen) == 0 {
		return nil, nil // it has SSH hosts alone
	}
	n := &nodeCounts{Listen: got.Listen, Pending: got.Pending}
	for _, node := range got.Nodes {
		if node.Kind == client.NodeSSH {
			n.SSH++
			continue
		}
		switch node.State {
		case client.NodeOnline:
			n.Online++
		case client.NodeOffline:
			n.Offline++
			n.Away = append(n.Away, visible(node.Name))
		case client.NodeUnknown: // by SSH, of which nothing is known
		case client.NodeRevoked: // it is none
		}
	}
	return n, nil
}

// String is as in "2 online, 1 offline, 1 asks to be one".
func (n nodeCounts) String() string {
	var words []string
	if n.Online > 0 {
		words = append(words, fmt.Sprintf("%d online", n.Online))
	}
	if n.Offline > 0 {
		words = append(words, fmt.Sprintf("%d offline", n.Offline))
	}
	if n.SSH > 0 {
		words = append(words, fmt.Sprintf("%d by SSH", n.SSH))
	}
	if len(words) == 0 {
		words = []string{"none"}
	}
	if n.Pending == 1 {
		words = append(words, "1 asks to be one")
	} else if n.Pending > 1 {
		words = append(words, fmt.Sprintf("%d ask to be nodes", n.Pending))
	}
	return strings.Join(words, ", ")
}

// checkNodes says whether the nodes of the gateway that runs can be used.
func checkNodes(n nodeCounts) doctor.Finding {
	const name = "nodes"
	f := doctor.Fine(name, "the gateway listens for nodes at %s: %s", strings.Join(n.Listen, " and "), n)
	switch {
	case n.Offline > 0:
		f.Status = doctor.Warn
		f.Meaning = "What runs on a node that is offline goes on there; nothing can be started on it. Offline: " + brief(strings.Join(n.Away, ", "), 5*mostOfCommand) + "."
		f.Fix = "start corral node there, or revoke what is gone for good: corral nodes revoke NODE"
	case n.Pending > 0:
		f.Fix = "corral nodes pending lists what asks to be a node"
	case n.Online == 0:
		f.Fix = "corral nodes join says how to pair one"
	}
	return f
}
