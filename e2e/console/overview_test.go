//go:build e2e

package console_test

import "testing"

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
