//go:build e2e

package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/testnet"
)

// common is a gateway that tests share which need nothing of their own, with a sandbox
// that runs and a node that is paired.
var common commonGateway

type commonGateway struct {
	once  sync.Once
	g     *gateway
	ready bool
	ends  []func()
}

// An owner is a testing.TB whose Cleanup is that of the package.
type owner struct {
	testing.TB
	c *commonGateway
}

func (o owner) Cleanup(f func()) { o.c.ends = append(o.c.ends, f) }

// get is the common gateway, for a test.
func (c *commonGateway) get(t *testing.T) *gateway {
	t.Helper()
	enginetest.New(t) // with the image
	c.once.Do(func() {
		o := owner{t, c}
		c.g = launch(o, testdir.New(o), "--sandbox", "all", "--image", images.Busybox, "--workspace-access", "none", "--nodes", fmt.Sprintf("127.0.0.1:%d", testnet.FreePort(t)))
		o.Cleanup(c.g.stop)
		c.g.session("boxed", `{"command":"sleep 100000"}`)
		c.g.pair("builder", map[string]string{"pool": "gpu"})
		c.ready = true
	})
	if !c.ready {
		t.Fatal("the common gateway could not be started: see the first test that needed it")
	}
	g := *c.g
	g.t = t
	return &g
}

// pair makes a node, which runs until the gateway's test ends.
func (g *gateway) pair(name string, labels map[string]string) (stop func()) {
	g.t.Helper()
	join, err := g.c.JoinNodes(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	stop = g.node(join.Command, name)
	var asked []api.NodeRequest
	g.eventually("the machine asks to be a node", func() bool {
		asked, err = g.c.NodeRequests(g.t.Context())
		asked = slices.DeleteFunc(asked, func(r api.NodeRequest) bool { return r.State != "pending" })
		return err == nil && len(asked) > 0
	})
	if _, err := g.c.ApproveNode(g.t.Context(), asked[0].ID, api.NodeAnswer{Decision: api.NodeApprove, Name: name, Labels: labels}); err != nil {
		g.t.Fatal(err)
	}
	g.eventually("the node is online", func() bool {
		n, err := g.c.Node(g.t.Context(), name)
		return err == nil && n.State == api.NodeOnline
	})
	return stop
}

// stop ends all of it, the newest first.
func (c *commonGateway) stop() {
	for i := len(c.ends) - 1; i >= 0; i-- {
		c.ends[i]()
	}
}

// configure replaces the configuration file until the test ends, which then is as before.
func (g *gateway) configure(text string) {
	g.t.Helper()
	file := filepath.Join(g.dir, "corral.json5")
	old, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o600)
	}
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		if err := os.WriteFile(file, old, 0o600); err != nil {
			g.t.Error(err)
		}
	})
}

func (g *gateway) configText() string {
	g.t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, "corral.json5"))
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}
