package guard

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

// DialPort connects to nothing, and says where it would have.
func (b *boxes) DialPort(_ context.Context, agent string, sandboxed bool, _ int) (net.Conn, error) {
	b.dialled = append(b.dialled, agent, map[bool]string{true: "box", false: "machine"}[sandboxed])
	return nil, nil //nolint:nilnil // the tests look at what was dialled
}

// Ports of a node's machine are reached as far as node.ports goes, by agents that may run
// something there; those of an agent's sandbox in any case.
func TestNodePorts(t *testing.T) {
	for _, c := range []struct {
		settings, approvals string
		port                int
		off                 bool
		want                string // empty: it connects
	}{
		{settings: ``, port: 80, off: true, want: "no port 80"},
		{settings: `node: {ports: ["8080", "3000-3099"]}`, port: 8080, off: true},
		{settings: `node: {ports: ["8080", "3000-3099"]}`, port: 3000, off: true},
		{settings: `node: {ports: ["8080", "3000-3099"]}`, port: 3099, off: true},
		{settings: `node: {ports: ["8080", "3000-3099"]}`, port: 3100, off: true, want: "no port 3100"},
		{settings: `node: {ports: ["8080"]}`, port: 808, off: true, want: "config.json5:1)"},
		{settings: `node: {ports: ["1-65535"]}, tools: {exec: {security: "deny"}}`, port: 80, off: true, want: "security is deny"},
		{settings: `node: {ports: ["1-65535"]}, tools: {deny: ["exec"]}`, port: 80, off: true, want: "tools.deny"},
		{settings: `node: {ports: ["1-65535"]}`, approvals: `{"version": 1, "agents": {"main": {"security": "deny"}}}`, port: 80, off: true, want: "security is deny"},
		{settings: `node: {ports: ["1-65535"]}`, approvals: `{`, port: 80, off: true, want: "security is deny"},
		{settings: `tools: {exec: {security: "deny"}}`, port: 80},
	} {
		p := newPair(t, c.settings, trusting)
		b := p.boxed()
		b.off = c.off
		if c.approvals != "" {
			p.rig.write("state/exec-approvals.json", c.approvals)
		}
		_, err := p.node.DialPort(t.Context(), "", c.port)
		switch {
		case c.want == "" && (err != nil || len(b.dialled) != 2 || b.dialled[0] != "main" || (b.dialled[1] == "box") == c.off):
			t.Errorf("%+v: %v, %q", c, err, b.dialled)
		case c.want != "" && (!errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), c.want) || b.dialled != nil):
			t.Errorf("%+v: %v, %q", c, err, b.dialled)
		}
	}
}
