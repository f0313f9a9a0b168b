package client

import (
	"context"
	"net/http"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

type (
	// A Key says who may use the gateway for what.
	Key = api.Key
	// A NewKey says which one to make.
	NewKey = api.NewKey
	// A MadeKey has the secret of one.
	MadeKey = api.MadeKey
	// Self is what the caller's own key allows.
	Self = api.Self
)

// Self is what the key of this client allows.
func (c *Client) Self(ctx context.Context) (Self, error) {
	return ask[Self](ctx, c, get("key"), nil)
}

// A ConsoleLink signs a browser in to the console once.
type ConsoleLink = api.ConsoleLink

// ConsoleLink makes a link to the console. The gateway makes them for clients on its Unix
// socket alone.
func (c *Client) ConsoleLink(ctx context.Context) (ConsoleLink, error) {
	return ask[ConsoleLink](ctx, c, call{method: http.MethodPost, path: []string{"console", "links"}}, nil)
}

// Keys lists the keys, the oldest first.
func (c *Client) Keys(ctx context.Context) ([]Key, error) {
	list, err := ask[api.Keys](ctx, c, get("keys"), nil)
	return list.Keys, err
}

// NewKey makes a key. Its secret is told this once: if the answer is lost, the error is
// ErrLost, and the key is to be revoked.
func (c *Client) NewKey(ctx context.Context, n NewKey) (MadeKey, error) {
	return ask[MadeKey](ctx, c, call{method: http.MethodPost, path: []string{"keys"}, once: true, changes: true}, n)
}

// RotateKey gives a key, named by its ID or name, another secret and ID.
func (c *Client) RotateKey(ctx context.Context, ref string) (MadeKey, error) {
	return ask[MadeKey](ctx, c, keyCall(http.MethodPost, ref, "rotate"), nil)
}

// RevokeKey ends a key, named by its ID or name, and what is open by it.
func (c *Client) RevokeKey(ctx context.Context, ref string) error {
	return c.json(ctx, keyCall(http.MethodDelete, ref), nil, nil)
}

func keyCall(method, ref string, of ...string) call {
	req := call{method: method, path: append([]string{"keys", ref}, of...), once: true, changes: true}
	if strings.Trim(ref, ".") == "" { // it would be another path
		req.refused = corral.Errorf(corral.ErrNotFound, "see which there are: corral keys ls", "there is no key %q", ref)
	}
	return req
}
