package client_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/fleet/hub"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/test/natstest"
)

func TestNodes(t *testing.T) {
	h, err := hub.Open(hub.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	g := newRig(t)
	c := g.client(nil)
	if _, err := c.Nodes(t.Context()); !errors.Is(err, corral.ErrNotFound) || corral.Hint(err) == "" {
		t.Errorf("of a gateway that does not listen for nodes: %v", err)
	}
	g.away()
	g.nodes = h
	g.back()

	ask := func(name string) pairing.Request {
		t.Helper()
		_, public := natstest.NewKey(t)
		q, err := h.Registry().Ask(public, netip.Addr{}, pairing.Hello{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	one, two := ask("one"), ask("two")
	if list, err := c.NodeRequests(t.Context()); err != nil || len(list) != 2 || list[0].Code != one.Code {
		t.Errorf("%+v, %v", list, err)
	}
	n, err := c.ApproveNode(t.Context(), one.Code, client.NodeAnswer{Labels: map[string]string{"pool": "gpu"}, By: "alice"})
	if err != nil || n.Name != "one" || n.Labels["pool"] != "gpu" || n.ApprovedBy != "alice" {
		t.Errorf("%+v, %v", n, err)
	}
	if err := c.RejectNode(t.Context(), one.Code, "bob"); !errors.Is(err, corral.ErrConflict) {
		t.Errorf("a second answer: %v", err)
	}
	if err := c.RejectNode(t.Context(), two.Code, "bob"); err != nil {
		t.Error(err)
	}
	if list, err := c.Nodes(t.Context()); err != nil || len(list.Nodes) != 1 || !slices.Equal(list.Listen, h.Listens()) || list.Nodes[0].State != client.NodeOffline {
		t.Errorf("%+v, %v", list, err)
	}
	if n, err = c.ChangeNode(t.Context(), "one", client.NodeChange{Name: "seven"}); err != nil || n.Name != "seven" {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err = c.Node(t.Context(), n.ID[:6]); err != nil || n.Name != "seven" {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err = c.ChangeNode(t.Context(), "seven", client.NodeChange{Revoked: true}); err != nil || n.State != client.NodeRevoked {
		t.Errorf("%+v, %v", n, err)
	}
	if err := c.ForgetNode(t.Context(), "seven"); err != nil {
		t.Error(err)
	}
	if j, err := c.JoinNodes(t.Context()); err != nil || j.Line != h.Join().Line {
		t.Errorf("%+v, %v", j, err)
	}
	made, err := c.NewNodeToken(t.Context(), client.NewNodeToken{TTL: api.Duration(time.Minute), Uses: 2})
	if err != nil || made.Left != 2 || made.Token == "" {
		t.Errorf("%+v, %v", made, err)
	}
	if list, err := c.NodeTokens(t.Context()); err != nil || len(list) != 1 || list[0].ID != made.ID {
		t.Errorf("%+v, %v", list, err)
	}
	if err := c.WithdrawNodeToken(t.Context(), made.ID); err != nil {
		t.Error(err)
	}

	// A reference leads nowhere else.
	for _, ref := range []string{"", "../sessions", "a/b", "%2e", ".", "a b"} {
		_, err := c.Node(t.Context(), ref)
		_, changeErr := c.ChangeNode(t.Context(), ref, client.NodeChange{Name: "x"})
		_, approveErr := c.ApproveNode(t.Context(), ref, client.NodeAnswer{})
		for _, err := range []error{err, changeErr, approveErr, c.ForgetNode(t.Context(), ref), c.RejectNode(t.Context(), ref, ""), c.WithdrawNodeToken(t.Context(), ref)} {
			if !errors.Is(err, corral.ErrNotFound) || corral.Hint(err) == "" {
				t.Errorf("%q: %v", ref, err)
			}
		}
	}
	for _, ref := range []string{"tokens", "requests", "join"} {
		if _, err := c.Node(t.Context(), ref); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%q: %v", ref, err)
		}
	}
}
