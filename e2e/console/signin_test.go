//go:build e2e

package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestSignInByKey(t *testing.T) {
	g := start(t)
	p := g.browser()
	p.open("sessions")
	p.fill("input[name=key]", "corralkey_wrong")
	p.click("Sign in")
	p.has(".problem")
	p.signIn(g.key("operator"), "sessions")
	p.sees("There are no sessions.") // the page that was asked for
	if cookie := js[string](p, "document.cookie"); cookie != "" {
		t.Errorf("scripts see the cookie %q", cookie)
	}
	// It lasts, also in the gateway's next life.
	p.do(chromedp.Reload())
	p.sees("There are no sessions.")
	g.kill()
	p.sees("Reconnecting…")
	g.run()
	p.lacks("Reconnecting…")
	p.do(chromedp.Reload())
	p.sees("There are no sessions.")
	p.click("Sign out")
	p.has("input[name=key]")
	p.do(chromedp.Reload())
	p.has("input[name=key]")
}

func TestSignInByLink(t *testing.T) {
	g := common.get(t)
	p := g.browser()
	link := g.corral("console")
	p.goTo(link)
	p.sees("owner · admin")
	if at := js[string](p, "location.href"); strings.Contains(at, "link") {
		t.Errorf("the link is still in the URL %s", at)
	}
	other := g.browser()
	other.goTo(link)
	other.sees("the link was used, or is older than a minute")
	// A link made by another person would sign the user in with that person's key.
	foreign := g.browser()
	foreign.goTo(g.url + "/console/#link=" + g.key("operator"))
	foreign.has("input[name=key]")
	if at := js[string](foreign, "location.href"); strings.Contains(at, "link") {
		t.Errorf("the link is still in the URL %s", at)
	}
}

// Signing out counts in every tab of the browser, at once, and in no other browser.
func TestSignOutOfAllTabs(t *testing.T) {
	g := common.get(t)
	p, other := g.browser(), g.browser()
	key := g.key("operator")
	p.signIn(key, "events")
	other.signIn(key, "")
	second := p.another()
	second.open("")
	second.has("nav")
	second.click("Sign out")
	p.has("input[name=key]")
	second.has("input[name=key]")
	other.open("sessions")
	other.has("nav")
}

func TestRevokedKey(t *testing.T) {
	g := start(t)
	p := g.browser()
	p.signIn(g.key("viewer"), "sessions")
	keys, err := g.c.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.c.RevokeKey(t.Context(), keys[0].ID); err != nil {
		t.Fatal(err)
	}
	p.has("input[name=key]")
}

// What a key may not do is not there.
func TestRoles(t *testing.T) {
	g := start(t)
	for role, screens := range map[string]string{
		"viewer":   "Overview Approvals Sessions Events Sandboxes Nodes Policy",
		"agent":    "Overview Approvals Sessions Events Terminals Sandboxes Nodes Policy",
		"approver": "Overview Approvals Sessions Events Sandboxes Nodes Policy",
		"operator": "Overview Approvals Sessions Events Terminals Sandboxes Nodes Policy Configuration",
		"admin":    "Overview Approvals Sessions Events Terminals Sandboxes Nodes Policy Configuration Keys",
	} {
		t.Run(role, func(t *testing.T) {
			g := *g
			g.t = t
			p := g.browser()
			p.signIn(g.key(role), "")
			got := js[string](p, "[...document.querySelectorAll('nav > a')].map((a) => a.innerText.trim()).join(' ')")
			if got != screens {
				t.Errorf("the screens are %q, want %q", got, screens)
			}
			p.visit("sessions")
			p.sees("There are no sessions.")
			if got, want := p.offers("Start"), strings.Contains(screens, "Terminals"); got != want {
				t.Errorf("it offers to start commands: %v", got)
			}
			p.visit("keys")
			if role == "admin" {
				p.sees("New key")
			} else {
				p.sees("There is no such page.")
			}
		})
	}
}

func TestPagesAndKeyboard(t *testing.T) {
	g := start(t)
	g.session("main", `{"command":"echo found by the palette"}`)
	p := g.browser()
	p.owner("")
	p.click("Sessions")
	p.wait("location.pathname === '/console/sessions'")
	p.click("Policy")
	p.do(chromedp.NavigateBack())
	p.wait("location.pathname === '/console/sessions'")
	p.wait("document.title === 'Sessions · Corral'")
	p.has(".session a")
	p.do(chromedp.KeyEvent("j"))
	p.wait("document.activeElement.matches('.session a')")
	p.do(chromedp.KeyEvent("\r"))
	p.sees("found by the palette")
	g.session("main", `{"command":"echo second"}`)
	js[bool](p, `dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true}))`)
	p.fill("dialog.palette input", "sessions echo")
	p.wait("[...document.querySelectorAll('dialog.palette li')].map((e) => e.innerText.includes('second')).join() === 'true,false'") // the newest first
	p.fill("dialog.palette input", "keys")
	p.do(chromedp.KeyEvent("\r"))
	p.wait("location.pathname === '/console/keys'")
	p.open("nothing/here")
	p.sees("There is no such page.")
	for _, theme := range []string{"light", "dark", "auto"} {
		js[bool](p, `[...document.querySelectorAll('nav .foot button')][0].click() || true`)
		p.wait("document.documentElement.dataset.theme === %s", quoted(theme))
	}
}
