package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/hub"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/test/natstest"
)

// The message server may be somebody else's, which speaks before TLS does. A
// machine whose key it does not know waits, and says which key that is.
func TestExternalServer(t *testing.T) {
	own, gateway := natstest.NewKey(t)
	seed, err := own.Seed()
	must(t, err)
	creds := filepath.Join(t.TempDir(), "gateway.nk")
	must(t, os.WriteFile(creds, seed, 0o600))

	m, stranger := newMachine(t, t.TempDir(), hello()), newMachine(t, t.TempDir(), hello())
	key, strange := "", ""
	opened(t, m.dir, func(s *State) { key = s.Key() })
	opened(t, stranger.dir, func(s *State) { strange = s.Key() })
	text, err := hub.ServerConfig([]string{gateway}, false, []api.Node{{Key: key, ID: pairing.ID(key), Name: "m"}}, nil)
	must(t, err)
	server := natstest.Start(t, text)
	h, err := hub.Open(hub.Config{Dir: t.TempDir(), External: &hub.External{External: broker.External{URL: server.URL, Creds: creds, Cert: server.Cert}}, Log: testLog()})
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })

	line := h.Lines()[0].String()
	m.run(line)
	_, err = h.Approve(t.Context(), m.code(), api.NodeAnswer{Name: "builder"})
	must(t, err)
	m.serving()
	rest := &house{tb: t, nodes: h.Nodes()}
	if got := output(t, rest.node("builder"), "echo hello"); got != "hello\n" {
		t.Errorf("%q", got)
	}

	stranger.run(line)
	s := stranger.await("refused", func(s Status) bool { return s.Error != "" })
	if s.Phase != Connecting || !strings.Contains(s.Hint, "corral nodes server-config --allow "+strange) {
		t.Errorf("%+v", s)
	}
	if r, err := Look(stranger.dir); err != nil || r.Key != strange || !r.Running {
		t.Errorf("%+v, %v", r, err)
	}
	must(t, stranger.stop())
}
