//go:build e2e

package console_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/testnet"
)

func startWithNodes(t testing.TB) *gateway {
	return start(t, "--nodes", fmt.Sprintf("127.0.0.1:%d", testnet.FreePort(t)))
}

// node runs the command line that makes a machine a node, as the console shows it, until
// the test ends or stop is called.
func (g *gateway) node(line, name string) (stop func()) {
	g.t.Helper()
	words := strings.Fields(line)
	cmd := exec.Command(built.Program(g.t, "cmd/corral"), words[1:]...)
	dir := filepath.Join(g.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		g.t.Fatal(err)
	}
	cmd.Env, cmd.Dir = append(os.Environ(), "CORRAL_STATE_DIR="+dir, "CORRAL_CONFIG="+filepath.Join(g.dir, "corral.json5"), "XDG_CONFIG_HOME="+dir), dir
	cmd.Stdout, cmd.Stderr = g.log, g.log
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = cmd.Wait()
	})
	g.t.Cleanup(stop)
	return stop
}

func TestNodes(t *testing.T) {
	g := startWithNodes(t)
	p := g.browser()
	p.owner("nodes")
	p.sees("No machine is a node yet.")
	p.has(".copyable pre")
	line := js[string](p, "document.querySelector('.copyable pre').innerText.trim()")
	g.node(line, "machine")
	p.sees("Asks to be a node")
	p.sees("Compare the code with what the machine shows.")
	code := js[string](p, "document.querySelector('.code-word').innerText")
	g.eventually("the machine shows the same code", func() bool { return strings.Contains(g.log.String(), code) })
	p.fill(".card label:nth-child(1) input", "builder")
	p.fill(".card label:nth-child(2) input", "pool=gpu zone=a")
	p.click("Approve")
	p.sees("builder")
	p.sees("pool=gpu zone=a")
	p.wait("[...document.querySelectorAll('td .badge')].some((b) => b.innerText === 'online')")

	// An agent's commands for a node go to it.
	p.fill("form.below input", "far\r")
	p.choose("select[aria-label='Node: far']", "builder")
	g.eventually("main is bound to the node", func() bool {
		out, err := g.tryCorral("explain", "--json", "--agent", "far", "true") // it fails while the node is not heard
		return err == nil && strings.Contains(out, "builder")
	})
	p.click("Edit")
	p.fill("dialog input[name=name]", "smith")
	p.fill("dialog input[name=labels]", "pool=cpu\r")
	p.sees("smith")
	p.sees("pool=cpu")
	p.lacks("zone=a")
	p.click("Revoke")
	p.confirm("Revoke smith?")
	p.wait("[...document.querySelectorAll('td .badge')].some((b) => b.innerText === 'revoked')")
	js[bool](p, "[...document.querySelectorAll('td.acts button')].find((b) => b.innerText === 'Remove').click() || true")
	p.sees("No machine is a node yet.")
}

func TestRejectNode(t *testing.T) {
	g := startWithNodes(t)
	p := g.browser()
	p.owner("nodes")
	p.has(".copyable pre")
	g.node(js[string](p, "document.querySelector('.copyable pre').innerText.trim()"), "machine")
	p.sees("Asks to be a node")
	p.click("Reject")
	p.lacks("Asks to be a node")
	p.open("")
	p.sees("Nodes online")
}

func TestNoNodes(t *testing.T) {
	g := start(t)
	p := g.browser()
	p.owner("nodes")
	p.sees("This gateway does not listen for nodes.")
	p.click("Open the configuration")
	p.wait("document.querySelectorAll('main tbody tr').length === 1 && document.querySelector('main tbody tr').innerText.includes('nodes.listen')")
	p.open("sandboxes")
	p.sees("The sandbox is off.")
}

// A node's page has what it said of itself, and what runs there.
func TestNodePage(t *testing.T) {
	g := common.get(t)
	g.corral("exec", "--agent", "far", "--node", "builder", "--", "echo", "on the node")
	g.session("far", `{"command":"sleep 1000; : far away","node":"builder"}`)
	p := g.browser()
	p.owner("nodes")
	p.click("builder")
	p.wait("location.pathname.startsWith('/console/nodes/')")
	p.sees("pool=gpu")
	p.wait("document.querySelectorAll('.meter').length === 4")
	p.wait("[...document.querySelectorAll('.meter b')].some((b) => /GiB|MiB/.test(b.innerText))")
	p.click("far away")
	p.wait("location.pathname.startsWith('/console/sessions/')")
	p.open("nodes/none")
	p.sees("There is no such node.")
}

// Of a node that is away the last values stay, greyed and with their age.
func TestNodeAway(t *testing.T) {
	g := common.get(t)
	stop := g.pair("leaver", nil)
	p := g.browser()
	p.owner("nodes/leaver")
	p.wait("document.querySelectorAll('.meter:not(.stale)').length === 4")
	stop()
	p.sees("offline")
	p.sees("as it was")
	p.wait("document.querySelectorAll('.meter.stale').length === 4")
	p.open("nodes")
	p.wait("document.querySelector('td .stale')")
	if err := g.c.ForgetNode(t.Context(), "leaver"); err == nil {
		t.Error("a node that is no node any more was to be revoked first")
	}
}

// charted waits for a chart with so many points: the gateway measures every 15 seconds.
func (p *tab) charted(title string) {
	p.t.Helper()
	for range 3 {
		if ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](fmt.Sprintf(`new Promise((resolve) => { const end = Date.now() + 25000; const look = () => {
			const f = [...document.querySelectorAll('figure.chart')].find((f) => f.innerText.includes(%s));
			if (f?.querySelector('.plot canvas')) resolve(true); else if (Date.now() > end) resolve(false); else setTimeout(look, 50) }; look() })`, quoted(title)), chromedp.EvalAwaitPromise)); ok && err == nil {
			return
		}
	}
	p.t.Fatalf("there is no chart %q on\n%s", title, js[string](p, "document.body.innerText"))
}

func TestNodeChart(t *testing.T) {
	g := common.get(t)
	p := g.browser()
	p.owner("nodes/builder")
	p.charted("Load, last hour")
	p.charted("Memory, last hour")
}
