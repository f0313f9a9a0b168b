package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/gateway/access"
)

// Ports of nodes are for those who may have commands run there.
func TestNodePortsMay(t *testing.T) {
	g := serveWith(t, `{ agents: { list: [{ id: "main" }, { id: "shut", tools: { exec: { security: "deny" } } }, { id: "none", tools: { deny: ["exec"] } }] } }`)
	sandboxOnly := access.WithGrant(t.Context(), &access.Grant{Name: "k", Hosts: []string{"sandbox"}})
	for _, c := range []struct {
		ctx         context.Context
		agent, want string
		kind        error
	}{
		{sandboxOnly, "main", "may not use host node", corral.ErrDenied},
		{t.Context(), "shut", "security is deny", corral.ErrDenied},
		{t.Context(), "none", "tools.deny", corral.ErrDenied},
		{t.Context(), "main", "no node is paired", corral.ErrUnavailable},
	} {
		if _, err := g.s.hosts.dialNode(c.ctx, c.agent, "builder", 80); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.agent, err)
		}
	}
}
