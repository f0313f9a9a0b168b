//go:build e2e

package console_test

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// block has the browser load no file of a name; allow ends that.
func (p *tab) block(name string) {
	p.t.Helper()
	p.blocked(&network.BlockPattern{URLPattern: p.g.url + "/*/" + name, Block: true})
}

func (p *tab) allow() { p.t.Helper(); p.blocked() }

func (p *tab) blocked(patterns ...*network.BlockPattern) {
	p.t.Helper()
	p.do(chromedp.Func(func(ctx context.Context, tg *chromedp.Target) error {
		_, err := chromedp.Call(ctx, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: patterns})
		return err
	}))
}

// A page whose script could not be loaded says so, and loads it as soon as it can.
func TestFileNotLoaded(t *testing.T) {
	p := common.get(t).browser()
	for _, name := range []string{"app.js", "app.css"} {
		p.block(name)
		p.open("")
		p.sees("could not be loaded. Trying again")
		p.allow()
		p.has("input[name=key]")
		p.lacks("Trying again")
	}
}

func TestOverviewCharts(t *testing.T) {
	g := common.get(t)
	g.finish("main", "exit 1")
	p := g.browser()
	p.owner("")
	p.charted("Commands a second")
	p.charted("Time to answer")
	p.charted("Requests a second")
	if label := js[string](p, "document.querySelector('.plot').getAttribute('aria-label')"); label == "" {
		t.Error("the chart says nothing to those who do not see it")
	}
	// The colours follow the theme, and the first page has no library for charts.
	js[bool](p, "[...document.querySelectorAll('nav .foot button')][0].click() || true")
	p.charted("Time to answer")

	p = g.browser()
	p.block("uplot-*.js")
	p.owner("")
	p.wait("performance.getEntriesByType('resource').some((e) => e.name.includes('uplot-'))")
	p.allow()
	p.charted("Time to answer")
}

func TestOverviewDoctor(t *testing.T) {
	g := common.get(t)
	p := g.browser()
	p.owner("")
	p.sees("Checks of the gateway’s machine")
	p.wait("document.querySelector('.findings summary, main section p.dim')")
	p = g.browser()
	p.signIn(g.key("viewer"), "")
	p.sees("Waiting for an answer")
	p.sees("The last hour")
	p.lacks("Checks of the gateway’s machine")
}

// A key for some agents is told nothing of the others, not even how much they do.
func TestOverviewOfTenant(t *testing.T) {
	g := common.get(t)
	p := g.browser()
	p.signIn(g.key("operator", "mine"), "")
	p.sees("Waiting for an answer")
	p.lacks("The last hour")
	p.lacks("Checks of the gateway’s machine")
}
