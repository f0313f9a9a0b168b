package nodeexec

import (
	"context"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
)

// poolPrefix begins the name of a pool. No node's name or id has a colon.
const poolPrefix = "pool:"

// defaultLabel is the label's key in the short form pool:VALUE.
const defaultLabel = "pool"

// mostTried bounds the nodes of a pool that are tried for one command: each silent node
// costs startPatience.
const mostTried = 3

func isPool(name string) bool { return strings.HasPrefix(name, poolPrefix) }

// parsePool returns the label of a pool's nodes.
func parsePool(name string) (key, value string, err error) {
	label := strings.TrimPrefix(name, poolPrefix)
	key, value, found := strings.Cut(label, "=")
	if !found {
		key, value = defaultLabel, label
	}
	if key == "" || label == "" {
		return "", "", corral.Errorf(corral.ErrInvalid, "write pool:NAME for the label pool=NAME, or pool:KEY=VALUE for any label", "%s names no label", quote(name))
	}
	return key, value, nil
}

// Next implements corral.OneOfMany: another node of the pool.
func (n *Node) Next(ctx context.Context) (corral.Executor, string, error) {
	switch {
	case n.pool == "":
		return nil, "", corral.Errorf(corral.ErrUnavailable, "", "node %s was not chosen from a pool", n.name)
	case len(n.tried) >= mostTried:
		return nil, "", corral.Errorf(corral.ErrUnavailable, "try again", "%d nodes of %s were tried", len(n.tried), quote(n.pool))
	}
	return n.f.selectNode(ctx, n.pool, n.tried)
}

// pickMember chooses a node of a pool that was not tried yet.
func pickMember(all []candidate, name string, tried []string, draw func(n int) int) (candidate, error) {
	key, value, err := parsePool(name)
	if err != nil {
		return candidate{}, err
	}
	meant := filter(all, func(c candidate) bool { return c.in(key, value) })
	if len(meant) == 0 {
		return candidate{}, unknown(all, name, "no node has the label "+quote(key+"="+value), "label the nodes that are to be in the pool (corral nodes label), or name one node", func(c candidate) string {
			if v, has := c.Labels[key]; has {
				return c.called() + " with " + quote(key+"="+v)
			}
			return c.called()
		})
	}
	counting := filter(meant, candidate.counts)
	if len(counting) == 0 {
		return candidate{}, useless(name, meant)
	}
	counting = filter(counting, func(c candidate) bool { return !slices.Contains(tried, c.ID) })
	if len(counting) == 0 {
		return candidate{}, corral.Errorf(corral.ErrUnavailable, "try again", "every node of %s that is online was tried", quote(name))
	}
	return lessLoaded(counting, draw), nil
}

// in reports whether the node has the label of a pool.
func (c candidate) in(key, value string) bool {
	v, has := c.Labels[key]
	return has && v == value
}

// lessLoaded draws two of the nodes and returns the less busy one. To take the least
// busy of all would send every command between two hellos to one node, and other
// gateways would do the same.
func lessLoaded(list []candidate, draw func(n int) int) candidate {
	i := draw(len(list))
	if len(list) == 1 {
		return list[i]
	}
	j := draw(len(list) - 1)
	if j >= i {
		j++
	}
	if list[j].peer.load() < list[i].peer.load() {
		return list[j]
	}
	return list[i]
}
