//go:build e2e

package console_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/corral-exec/corral/session"
)

// finish runs a command in the background whose end is an event.
func (g *gateway) finish(agent, command string) {
	g.t.Helper()
	id := g.session(agent, fmt.Sprintf(`{"command":%s,"notifyOnExit":true,"host":"gateway"}`, quoted(command)))
	g.eventually("the command ends", func() bool {
		all, err := g.c.Sessions(g.t.Context(), true)
		return err == nil && slices.ContainsFunc(all, func(s session.Status) bool { return s.ID == id && s.Ended() })
	})
}

// What happens is there by itself, and what happened before is, too.
func TestEvents(t *testing.T) {
	g := common.get(t)
	g.finish("live", "echo before")
	p := g.browser()
	p.owner("events")
	p.sees(":: before")
	g.finish("live", "echo meanwhile")
	p.sees(":: meanwhile")
	js[bool](p, "[...document.querySelectorAll('.session a')].find((a) => a.innerText.includes('meanwhile')).click() || true")
	p.wait("location.pathname.startsWith('/console/sessions/')")
	p.sees("meanwhile")
}

func TestEventFilters(t *testing.T) {
	g := common.get(t)
	g.finish("one", "echo in one")
	g.finish("two", "echo in two; exit 4")
	p := g.browser()
	p.owner("events")
	p.sees("in two")
	p.choose("select[aria-label=Agent]", "one")
	p.lacks("in two")
	p.sees("in one")
	p.wait("location.search === '?agent=one'")
	p.choose("select[aria-label=Agent]", "")
	p.fill("input[type=search]", ":: in two")
	p.sees("in two")
	p.lacks("in one")
	p.wait("document.querySelector('.session .badge.bad')")
	p.choose("select[aria-label=Kind]", "exec.finished")
	p.sees("in two")
	p.fill("input[type=search]", "nothing like it")
	p.sees("No event is like that.")
}

func TestEventsOfTenant(t *testing.T) {
	g := common.get(t)
	g.finish("tenant", "echo of the tenant")
	g.finish("stranger", "echo of a stranger")
	p := g.browser()
	p.signIn(g.key("viewer", "tenant"), "events")
	p.sees("of the tenant")
	p.lacks("of a stranger")
}
