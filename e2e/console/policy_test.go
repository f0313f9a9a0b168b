//go:build e2e

package console_test

import (
	"strings"
	"testing"

	"github.com/corral-exec/corral/api"
)

func TestExplainAndRules(t *testing.T) {
	g := start(t)
	p := g.browser()
	p.owner("policy")
	p.fill("main header.page input", "asks\r")
	p.fill("input[aria-label=Command]", "git push | tee log")
	p.sees("asked about")
	p.sees("/git")
	p.sees("allowlist")
	p.sees("corral.json5") // where that is written
	p.fill("input[aria-label=Command]", "echo $(")
	p.wait("document.querySelector('.report .badge.bad, .report .badge.warn, .problem')")
	p.sees("The file of approvals has no rules for this agent.")
	p.fill("input[aria-label=Program]", "/usr/bin/git status")
	p.click("Add")
	p.sees("git status")
	p.fill("input[aria-label=Command]", "git status")
	p.wait("document.querySelector('.report .badge')?.innerText === 'allowed'")
	js[bool](p, "[...document.querySelectorAll('td.acts button')].find((b) => b.innerText === 'Remove').click() || true")
	p.confirm("Remove the rule")
	p.sees("The file of approvals has no rules for this agent.")
}

// Before a rule is written, it is seen what it changes.
func TestRulePreview(t *testing.T) {
	g := common.get(t)
	g.finish("trial", "/bin/true one")
	g.finish("trial", "/bin/true two")
	g.finish("trial", "echo other")
	p := g.browser()
	p.owner("policy")
	p.fill("main header.page input", "trial\r")
	p.choose("select[name=action]", "deny")
	p.fill("input[aria-label=Program]", "/bin/true")
	p.sees("2 of the last 3 commands would change:")
	p.sees("/bin/true two")
	p.fill("input[aria-label=Program]", "/bin/false")
	p.sees("None of the last 3 commands would change.")
	p.sees("The file of approvals has no rules for this agent.") // nothing was written
}

func TestRulePreviewOfRemoval(t *testing.T) {
	g := common.get(t)
	g.finish("undo", "/bin/true one")
	g.corral("approvals", "add", "--agent", "undo", "--deny", "/bin/true")
	p := g.browser()
	p.owner("policy")
	p.fill("main header.page input", "undo\r")
	p.wait("document.querySelector('td.acts button')")
	js[bool](p, "document.querySelector('td.acts button').click() || true")
	p.sees("1 of the last 1 commands would change")
	js[bool](p, "document.querySelector('dialog[open] form').requestSubmit() || true")
	p.sees("The file of approvals has no rules for this agent.")
}

func TestKeys(t *testing.T) {
	g := start(t)
	p := g.browser()
	p.owner("keys")
	p.sees("There are no keys.")
	p.click("New key")
	p.fill("dialog input[name=name]", "acme")
	p.choose("dialog select[name=role]", "agent")
	p.fill("dialog input[name=agents]", "acme-* beta")
	p.click2("dialog input[value=sandbox]")
	p.fill("dialog input[name=ttl]", "soon\r")
	p.has("dialog .problem")
	p.fill("dialog input[name=ttl]", "24h\r")
	p.sees("It is shown this once")
	secret := js[string](p, "document.querySelector('dialog .copyable pre').innerText.trim()")
	keys, err := g.c.Keys(t.Context())
	if err != nil || len(keys) != 1 || keys[0].Role != "agent" || strings.Join(keys[0].Agents, " ") != "acme-* beta" || len(keys[0].Hosts) != 1 || keys[0].ExpiresAt == nil {
		t.Fatalf("the keys are %+v, %v", keys, err)
	}
	p.click("Close")
	p.sees("acme-* beta")
	if body := js[string](p, "document.documentElement.outerHTML"); strings.Contains(body, secret) {
		t.Error("the secret is still on the page")
	}
	other := g.browser()
	other.signIn(secret, "")
	other.sees("acme · agent")
	p.click("Rotate")
	p.sees("another secret")
	js[bool](p, "document.querySelector('dialog[open] form').requestSubmit() || true")
	p.sees("It is shown this once")
	other.has("input[name=key]") // the old one ended
	keys, err = g.c.Keys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatalf("the keys are %+v, %v", keys, err)
	}
	p.sees(keys[0].ID) // another key under the same name: the list shows it after a moment
	p.click("Close")
	p.click("Revoke")
	p.confirm("Revoke acme?")
	p.sees("There are no keys.")
}

// A key for some agents sees those alone.
func TestTenants(t *testing.T) {
	g := start(t)
	g.session("mine", `{"command":"echo mine"}`)
	g.session("theirs", `{"command":"echo theirs"}`)
	id := g.ask("touch file")
	p := g.browser()
	p.signIn(g.key("operator", "mine"), "sessions")
	p.sees("echo mine")
	if text := js[string](p, "document.body.innerText"); strings.Contains(text, "theirs") {
		t.Error("it sees the sessions of others")
	}
	p.open("approvals")
	p.sees("Nothing waits for an answer.")
	p.open("approvals/" + id)
	p.sees("This approval is answered, expired or unknown.")
}

// Nothing of what others wrote becomes markup or runs.
func TestStoredScripts(t *testing.T) {
	payloads := []string{
		`<script>ran(1)</script>`, `<img src=x onerror=ran(2)>`, `"><svg onload=ran(3)>`, `'><iframe srcdoc="<script>parent.ran(4)</script>">`, `javascript:ran(5)`, `</pre><script>ran(6)</script>`,
		`<a href="javascript:ran(7)">x</a>`, `<details open ontoggle=ran(8)>`, `<body onload=ran(9)>`, `{{constructor.constructor('ran(10)')()}}`, `${ran(11)}`, `<math><mtext></p><script>ran(12)</script>`,
		`<template><script>ran(13)</script></template>`, `<style>@import 'http://evil.example/'</style>`, `<link rel=stylesheet href=http://evil.example/>`, `<base href=http://evil.example/>`, `<meta http-equiv=refresh content="0;url=http://evil.example/">`,
		`<form action=http://evil.example/><button>go</button></form>`, `<object data=data:text/html,x>`, `<embed src=x>`, `<video><source onerror=ran(21)>`, `<input autofocus onfocus=ran(22)>`, `<marquee onstart=ran(23)>`,
		`&lt;script&gt;ran(24)&lt;/script&gt;`, `<ScRiPt>ran(25)</sCrIpT>`, `<svg><script>ran(26)</script></svg>`, `<svg><animate onbegin=ran(27) attributeName=x>`, `<xmp><script>ran(28)</script>`, `<noscript><p title="</noscript><img src=x onerror=ran(29)>">`,
		`<img src="http://evil.example/pixel">`, `<iframe src=javascript:parent.ran(31)>`, `<!--<script>-->ran(32)`, `<plaintext>`, `<textarea><script>ran(34)</script>`, `<title></title><script>ran(35)</script>`,
		`<button popovertarget=x onclick=ran(36)>`, `<dialog open onclose=ran(37)>`, `<audio src=x onerror=ran(38)>`, `<select><option><script>ran(39)</script>`, `<table background=javascript:ran(40)>`, `<isindex type=image src=1 onerror=ran(41)>`,
	}
	g := common.get(t)
	all := strings.Join(payloads, "\n")
	g.write("payloads", all)
	session := g.session("main", `{"command":`+quoted("cat payloads; printf '\\033]0;"+payloads[1]+"\\a'; : "+strings.Join(payloads[:20], " ' "))+`,"description":`+quoted(strings.Join(payloads[20:], " "))+`}`)
	terminal := g.session("main", `{"command":"cat payloads; printf '\\033]0;<img src=x onerror=ran(1)>\\a\\033]8;;javascript:ran(2)\\alink\\033]8;;\\a'; sleep 1000","tty":{"rows":24,"cols":80}}`)
	id := g.ask("touch " + quoted(all))
	if _, err := g.c.NewKey(t.Context(), api.NewKey{Name: strings.ReplaceAll(payloads[1], "/", ""), Role: "viewer"}); err != nil {
		t.Fatal(err)
	}
	g.session("boxed", `{"command":`+quoted("touch -- '"+payloads[1]+"' '"+payloads[2]+"'")+`}`)
	join, err := g.c.JoinNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g.node(join.Command+" --name=<img/src=x/onerror=ran(42)>", "hostile")
	p := g.browser()
	p.owner("sandboxes/boxed")
	p.sees(payloads[1])
	p.visit("nodes")
	p.sees("Asks to be a node: ")
	for _, path := range []string{"", "sandboxes/boxed", "approvals", "approvals/" + id, "sessions", "sessions/" + session + "?agent=main", "terminals", "terminals/" + terminal + "?agent=main", "policy", "keys", "nodes", "sandboxes", "events", "config", "approvals/" + strings.ReplaceAll(payloads[1], "/", "%2F"), "sessions/x?agent=" + payloads[1]} {
		p.open(strings.ReplaceAll(path, " ", "%20"))
		p.has("main header.page")
		p.wait("!document.querySelector('main .empty[role=status]')")
		if n := js[int](p, "document.querySelectorAll('main script, main iframe, main img, main object, main embed, main form[action], main link, main style:not(.xterm *)').length"); n != 0 {
			t.Errorf("%q has %d elements that it should not have", path, n)
		}
		if at := js[string](p, "location.origin"); at != g.url {
			t.Fatalf("the page went to %s", at)
		}
	}
	p.open("policy")
	p.fill("input[aria-label=Command]", payloads[1]+"; "+payloads[0])
	p.has(".report")
	p.fine()
	g.post("asks", "/v1/approvals/"+id, `{"decision":"deny"}`)
	p.visit("nodes")
	p.click("Reject")
	p.lacks("Asks to be a node")
}
