package node

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/hub"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/natstest"
	"github.com/corral-exec/corral/policy/approval"
)

// After an error of the server that the library does not know, it closes the connection
// for good. Gateway and node connect anew, and all goes on: calls that wait, the node's
// output, the registry and the approvals that gateways share.
func TestConnectionGivenUp(t *testing.T) {
	server := natstest.NewEmbedded(t, server.Options{})
	proxy := natstest.NewProxy(t, server.Address())
	own, _ := natstest.NewKey(t)
	seed, err := own.Seed()
	must(t, err)
	creds := filepath.Join(t.TempDir(), "gateway.nk")
	must(t, os.WriteFile(creds, seed, 0o600))
	x := &hub.External{External: broker.External{URL: proxy.URL, Creds: creds, Cert: proxy.Cert}, Shared: true}
	var lines logtest.Log
	h, err := hub.Open(hub.Config{Dir: t.TempDir(), External: x, Log: slog.New(slog.NewTextHandler(&lines, nil))})
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })
	store, _, err := h.Approvals(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	changed := make(chan string, 1)
	must(t, store.Follow(func(r approval.Record) { changed <- r.ID }))

	ex := hello()
	release := make(chan struct{})
	ex.Programs["wait"] = func(io *fakeexec.IO) int {
		_, _ = io.Stdout.Write([]byte("before "))
		<-release
		_, _ = io.Stdout.Write([]byte("after\n"))
		return 0
	}
	m := newMachine(t, t.TempDir(), ex)
	m.run(h.Lines()[0].String())
	_, err = h.Approve(t.Context(), m.code(), api.NodeAnswer{Name: "builder"})
	must(t, err)
	m.serving()
	rest := &house{tb: t, nodes: h.Nodes()}
	p, err := rest.node("builder").Start(t.Context(), corral.Command{Shell: "wait"})
	must(t, err)
	text := make(chan string)
	go func() { text <- read(t, p) }()

	for range 2 {
		if n := proxy.Say("-ERR 'whatever'"); n != 2 {
			t.Errorf("%d clients, want the gateway and the node", n)
		}
		m.await("connecting", func(s Status) bool { return s.Phase == Connecting })
		m.serving()
		if got := output(t, rest.node("builder"), "echo hello"); got != "hello\n" {
			t.Errorf("%q", got)
		}
	}
	if !strings.Contains(lines.String(), "whatever") {
		t.Errorf("the gateway's log is\n%s", lines.String())
	}
	close(release)
	if got := <-text; got != "before after\n" {
		t.Errorf("%q", got)
	}
	if n, err := h.Change(t.Context(), "builder", api.NodeChange{Name: "seven"}); err != nil || n.Name != "seven" {
		t.Errorf("%+v, %v", n, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = store.Put(ctx, approval.Record{ID: "a1", Version: 1})
	must(t, err)
	if got := <-changed; got != "a1" {
		t.Errorf("approval %s", got)
	}
}
