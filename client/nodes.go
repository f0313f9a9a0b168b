package client

import (
	"context"
	"net/http"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/lazy"
)

// What a gateway says of its nodes, and is told of them.
type (
	// Nodes are all nodes of a gateway.
	Nodes = api.Nodes
	// A Node is a machine that was approved.
	Node = api.Node
	// A NodeState says whether a node can be used.
	NodeState = api.NodeState
	// A NodeKind is how a node is reached.
	NodeKind = api.NodeKind
	// A NodeChange changes one thing about a node.
	NodeChange = api.NodeChange
	// A NodeRequest is a machine that asks to be a node.
	NodeRequest = api.NodeRequest
	// A NodeAnswer is how a machine becomes a node.
	NodeAnswer = api.NodeAnswer
	// A NodeJoin is what a machine needs to know to ask.
	NodeJoin = api.NodeJoin
	// A NodeToken is an approval in advance.
	NodeToken = api.NodeToken
	// A NewNodeToken says which one to make.
	NewNodeToken = api.NewNodeToken
	// A MadeNodeToken has the secret of one.
	MadeNodeToken = api.MadeNodeToken
)

// The kinds of nodes.
const (
	NodePaired = api.NodePaired
	NodeSSH    = api.NodeSSH
)

// The states of a node.
const (
	NodeOnline  = api.NodeOnline
	NodeOffline = api.NodeOffline
	NodeRevoked = api.NodeRevoked
	NodeUnknown = api.NodeUnknown
)

// sshHost is a node that is reached by SSH: see sshexec.Prefix.
var sshHost = lazy.Regexp(`^ssh:[A-Za-z0-9_.+%@:\[\]-]{1,300}$`)

// nodeCall keeps a reference from leading elsewhere: ids, keys, codes and names
// have no other characters.
func nodeCall(method, ref string, under ...string) call {
	req := call{method: method, path: append(append([]string{"nodes"}, under...), ref), changes: method != http.MethodGet}
	switch {
	case corral.ValidateID(ref) != nil && !sshHost().MatchString(ref):
		req.refused = corral.Errorf(corral.ErrNotFound, "see which there are: corral nodes ls, corral nodes pending", "no node, and no machine that asks to be one, can be called %.80q", ref)
	case len(under) == 0 && (ref == "requests" || ref == "join" || ref == "tokens"):
		req.refused = corral.Errorf(corral.ErrInvalid, "use the id of the node", "%q is not told from a part of the API", ref)
	}
	return req
}

// Nodes lists the nodes, by name, those that were revoked at the end.
func (c *Client) Nodes(ctx context.Context) (Nodes, error) {
	return ask[Nodes](ctx, c, get("nodes"), nil)
}

// Node finds a node by its id, its key, its name, or the beginning of an id that
// no other has.
func (c *Client) Node(ctx context.Context, ref string) (Node, error) {
	return ask[Node](ctx, c, nodeCall(http.MethodGet, ref), nil)
}

// ChangeNode changes a node's name or its labels, or revokes it.
func (c *Client) ChangeNode(ctx context.Context, ref string, change NodeChange) (Node, error) {
	return ask[Node](ctx, c, nodeCall(http.MethodPatch, ref), change)
}

// ForgetNode removes a node that was revoked.
func (c *Client) ForgetNode(ctx context.Context, ref string) error {
	req := nodeCall(http.MethodDelete, ref)
	req.once = true
	return c.json(ctx, req, nil, nil)
}

// NodeRequests lists the machines that ask to be nodes, and those that were
// answered not long ago, the oldest first.
func (c *Client) NodeRequests(ctx context.Context) ([]NodeRequest, error) {
	list, err := ask[api.NodeRequests](ctx, c, get("nodes", "requests"), nil)
	return list.Requests, err
}

// ApproveNode makes a node of the machine with that code, id or key. The first
// answer counts; any other is an ErrConflict that says who answered what.
func (c *Client) ApproveNode(ctx context.Context, ref string, a NodeAnswer) (Node, error) {
	a.Decision = api.NodeApprove
	return ask[Node](ctx, c, nodeCall(http.MethodPost, ref, "requests"), a)
}

// RejectNode tells the machine with that code, id or key that it will not be a
// node. By is who says so, for people.
func (c *Client) RejectNode(ctx context.Context, ref, by string) error {
	return c.json(ctx, nodeCall(http.MethodPost, ref, "requests"), NodeAnswer{Decision: api.NodeReject, By: by}, nil)
}

// JoinNodes says what a machine needs to know to ask to be a node.
func (c *Client) JoinNodes(ctx context.Context) (NodeJoin, error) {
	return ask[NodeJoin](ctx, c, get("nodes", "join"), nil)
}

// NodeTokens lists the setup tokens that can be used, the oldest first.
func (c *Client) NodeTokens(ctx context.Context) ([]NodeToken, error) {
	list, err := ask[api.NodeTokens](ctx, c, get("nodes", "tokens"), nil)
	return list.Tokens, err
}

// NewNodeToken makes a setup token. Its secret is told this once: if the answer is
// lost, the error is ErrLost, and the token is to be withdrawn.
func (c *Client) NewNodeToken(ctx context.Context, n NewNodeToken) (MadeNodeToken, error) {
	return ask[MadeNodeToken](ctx, c, call{method: http.MethodPost, path: []string{"nodes", "tokens"}, once: true, changes: true}, n)
}

// WithdrawNodeToken ends that a setup token, named by its id, can be used.
func (c *Client) WithdrawNodeToken(ctx context.Context, id string) error {
	if corral.ValidateID(id) != nil {
		return corral.Errorf(corral.ErrNotFound, "see which there are: corral nodes tokens ls", "there is no setup token %.80q", id)
	}
	return c.json(ctx, call{method: http.MethodDelete, path: []string{"nodes", "tokens", id}, once: true, changes: true}, nil, nil)
}
