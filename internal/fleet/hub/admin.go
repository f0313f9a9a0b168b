package hub

import (
	"cmp"
	"context"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/nodeexec"
)

// List returns all nodes, by name, and whether they are online. Revoked nodes are at
// the end. A node that this life of the gateway never heard of is asked, which takes a
// second if it does not answer.
func (h *Hub) List(ctx context.Context) api.Nodes {
	present := map[string]nodeexec.Status{}
	for _, s := range h.nodes.List(ctx) {
		present[s.ID] = s
	}
	list := api.Nodes{Listen: h.Listens(), Pending: h.asking(), Nodes: []api.Node{}}
	for _, n := range h.registry.Nodes() {
		list.Nodes = append(list.Nodes, shown(n, present[n.ID]))
	}
	return list
}

// Node finds a node by its id, its key, its name, or an unambiguous prefix of its id.
func (h *Hub) Node(ctx context.Context, ref string) (api.Node, error) {
	n, err := h.registry.Node(ref)
	if err != nil {
		return api.Node{}, err
	}
	return h.present(ctx, n), nil
}

// present describes a node, and whether it is online.
func (h *Hub) present(ctx context.Context, n pairing.Node) api.Node {
	for _, s := range h.nodes.List(ctx) {
		if s.ID == n.ID {
			return shown(n, s)
		}
	}
	return shown(n, nodeexec.Status{})
}

func shown(n pairing.Node, s nodeexec.Status) api.Node {
	state, problem := api.NodeOffline, ""
	switch {
	case !n.RevokedAt.IsZero():
		state = api.NodeRevoked
	case s.Online:
		state, problem = api.NodeOnline, s.Problem
	}
	a := api.NodeAbout{Host: s.Host, OS: cmp.Or(s.OS, n.OS), Arch: cmp.Or(s.Arch, n.Arch), Version: cmp.Or(s.Program, n.Version), Features: n.Features}
	if s.Features != nil {
		a.Features = s.Features
	}
	var load *api.NodeLoad
	if l := s.Load; !s.Heard.IsZero() {
		load = &api.NodeLoad{
			CPUs: l.CPUs, Average: float64(l.Average*l.CPUs) / 1000, Running: l.Running, Processes: l.Processes,
			Memory: l.Memory, MemoryUsed: l.MemoryUsed, Disk: l.Disk, DiskUsed: l.DiskUsed,
		}
	}
	return api.Node{
		Load: load,
		ID:   n.ID, Kind: api.NodePaired, Name: n.Name, State: state, Labels: n.Labels, Addresses: n.Addresses, Heard: s.Heard, Problem: problem, NodeAbout: a,
		Key: n.Key, PairedAt: n.PairedAt, ApprovedBy: n.ApprovedBy, RevokedAt: n.RevokedAt, RevokedBy: n.RevokedBy,
	}
}

// Change changes a node.
func (h *Hub) Change(ctx context.Context, ref string, c api.NodeChange) (api.Node, error) {
	var n pairing.Node
	var err error
	switch {
	case c.Name != "" && c.Labels == nil && !c.Revoked:
		n, err = h.registry.Rename(ref, c.Name)
	case c.Name == "" && c.Labels != nil && !c.Revoked:
		n, err = h.registry.Relabel(ref, c.Labels)
	case c.Name == "" && c.Labels == nil && c.Revoked:
		n, err = h.registry.Revoke(ref, c.By)
	default:
		err = corral.Errorf(corral.ErrInvalid, "change the name, the labels, or set revoked to true, one at a time", "it is not clear what is to change of node %.80q", ref)
	}
	if err != nil {
		return api.Node{}, err
	}
	return h.present(ctx, n), nil
}

// Forget removes a node that was revoked.
func (h *Hub) Forget(ref string) error { return h.registry.Forget(ref) }

// Requests returns the machines that ask to be nodes, and the recently answered ones,
// the oldest first.
func (h *Hub) Requests() []api.NodeRequest {
	list := []api.NodeRequest{}
	for _, q := range h.registry.Requests() {
		list = append(list, api.NodeRequest{
			ID: q.ID, Code: q.Code, Key: q.Key, State: string(q.State), Name: q.Name, From: q.From,
			NodeAbout: api.NodeAbout{Host: q.Hello.Name, OS: q.Hello.OS, Arch: q.Hello.Arch, Version: q.Hello.Version, Features: q.Hello.Features},
			Claims:    q.Hello.Addresses, SameName: q.SameName, RevokedAt: q.RevokedAt,
			AskedAt: q.AskedAt, ExpiresAt: q.ExpiresAt, AnsweredBy: q.AnsweredBy, AnsweredAt: q.AnsweredAt,
		})
	}
	return list
}

// Approve makes the machine with that code, id or key a node. The first answer counts;
// any other is an ErrConflict.
func (h *Hub) Approve(ctx context.Context, ref string, a api.NodeAnswer) (api.Node, error) {
	n, err := h.registry.Approve(ref, pairing.Approval{By: a.By, Name: a.Name, Labels: a.Labels})
	if err != nil {
		return api.Node{}, err
	}
	made := shown(n, nodeexec.Status{})
	for _, q := range h.registry.Requests() {
		if q.ID == n.ID {
			made.Host = q.Hello.Name // the machine's own claim
		}
	}
	return made, nil
}

// Reject tells the machine with that code, id or key that it will not be a node.
func (h *Hub) Reject(ref, by string) error { return h.registry.Reject(ref, by) }

// Join returns the data that a machine needs to ask to be a node.
func (h *Hub) Join() api.NodeJoin {
	var all []api.NodeJoin
	for _, l := range h.Lines() {
		all = append(all, api.NodeJoin{Line: l.String(), Hosts: l.Hosts, Command: "corral node --gateway " + l.String()})
	}
	if len(all) > 1 {
		all[0].WebSocket = &all[1]
	}
	return all[0]
}

// Tokens returns the valid setup tokens, the oldest first.
func (h *Hub) Tokens() []api.NodeToken {
	list := []api.NodeToken{}
	for _, t := range h.registry.Tokens() {
		list = append(list, token(t))
	}
	return list
}

func token(t pairing.Token) api.NodeToken {
	return api.NodeToken{ID: t.ID, Left: t.Left, Labels: t.Labels, By: t.By, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt}
}

// NewToken makes a setup token.
func (h *Hub) NewToken(n api.NewNodeToken) (api.MadeNodeToken, error) {
	secret, t, err := h.registry.NewToken(cmp.Or(time.Duration(n.TTL), api.DefaultTokenTTL), cmp.Or(n.Uses, 1), n.Labels, n.By)
	if err != nil {
		return api.MadeNodeToken{}, err
	}
	return api.MadeNodeToken{Token: secret, NodeToken: token(t)}, nil
}

// Withdraw makes a setup token invalid.
func (h *Hub) Withdraw(id string) error { return h.registry.Withdraw(id) }
