//go:build e2e

package clients_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/test/testdir"
)

func testWrongKey(t *testing.T, p *place) {
	for _, key := range []string{strings.Repeat("x", 32), "corralkey_" + strings.Repeat("x", 52), ""} {
		_, err := p.host.byTCP("http", client.Options{Token: key}).Start(t.Context(), corral.Command{Shell: "true"})
		is(t, err, corral.ErrDenied)
		equal(t, corral.Hint(err) != "", true)
	}
}

func key(t *testing.T, p *place, n client.NewKey) string {
	t.Helper()
	made, err := p.host.client(client.Options{}).NewKey(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return made.Secret
}

func testRole(t *testing.T, p *place) {
	viewer := p.host.byTCP("http", client.Options{Token: key(t, p, client.NewKey{Name: "watcher", Role: "viewer"})})
	if _, err := viewer.Sessions(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	_, err := viewer.Start(t.Context(), corral.Command{Shell: "true"})
	is(t, err, corral.ErrDenied)
}

func testQuota(t *testing.T, p *place) {
	n := client.NewKey{Name: "small", Role: "agent", Agents: []string{"small"}}
	n.MaxSessions = 1
	c := p.host.byTCP("http", client.Options{Token: key(t, p, n), Agent: "small", Retry: -1})
	q := begin(t, c, corral.Command{Shell: "sleep 60"})
	_, err := c.Start(t.Context(), corral.Command{Shell: "true"})
	is(t, err, api.ErrTooMany)
	if _, err := q.(*client.Process).Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, exit := output(t, c, corral.Command{Shell: "true"})
	equal(t, exit.Success(), true)
}

func testTLS(t *testing.T, p *place) {
	config := filepath.Join(testdir.New(t), "corral.json5")
	writeFile(t, config, "{ gateway: { tls: { self: true } } }")
	g := startGateway(t, p.program, "--config", config)
	pem, err := os.ReadFile(filepath.Join(g.state, "gateway.pem"))
	if err != nil {
		t.Fatal(err)
	}
	c := g.byTCP("https", client.Options{Token: g.token(), Fingerprint: fingerprint(t, pem)})
	text, _ := output(t, c, corral.Command{Shell: "echo over TLS"})
	equal(t, text, "over TLS\n")
	_, err = g.byTCP("https", client.Options{Token: g.token(), Fingerprint: strings.Repeat("00", 32)}).Start(t.Context(), corral.Command{Shell: "true"})
	is(t, err, corral.ErrDenied)
	_, err = g.byTCP("https", client.Options{Token: g.token()}).Start(t.Context(), corral.Command{Shell: "true"})
	is(t, err, corral.ErrUnavailable)
}
