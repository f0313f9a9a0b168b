//go:build e2e

package console_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/policy/approval"
)

func (g *gateway) approval(id string) approval.Record {
	g.t.Helper()
	rec, err := g.c.Approval(g.t.Context(), id)
	if err != nil {
		g.t.Fatal(err)
	}
	return rec
}

func TestApprovals(t *testing.T) {
	g := start(t)
	p := g.browser()
	p.owner("approvals")
	p.sees("Nothing waits for an answer.")
	// It comes by itself, and is counted in the title.
	g.write("deploy.sh", "echo deployed\n")
	id := g.ask("sh ./deploy.sh 'two words' # why")
	p.sees("sh ./deploy.sh 'two words' # why")
	p.wait("document.title.startsWith('(1) ')")
	p.wait("document.querySelector('nav .count').innerText === '1'")

	js[bool](p, "document.querySelector('.card a.cmd').click() || true")
	p.wait("location.pathname === '/console/approvals/%s'", id)
	rec := g.approval(id)
	for _, text := range []string{filepath.Join(g.dir, "work"), rec.Decision.Reason, rec.Binding.Command, "Variables that the caller set"} {
		p.sees(text)
	}
	if len(rec.Binding.Scripts) > 0 {
		p.sees(rec.Binding.Scripts[0].SHA256)
	}
	p.click("Allow once")
	p.sees("allow-once")
	p.wait("!document.title.startsWith('(')")
	if rec := g.approval(id); rec.Verdict != approval.AllowOnce || rec.AnsweredBy != "owner" {
		t.Errorf("the answer is %q by %q", rec.Verdict, rec.AnsweredBy)
	}
	p.click("‹")
	p.sees("Answered")
}

// Who starts a command that is asked about is taken to the question, and from there to the output.
func TestStartIsAsked(t *testing.T) {
	g := common.get(t)
	p := g.browser()
	p.owner("")
	p.click("Start")
	p.fill("dialog input[name=command]", "uname; echo it ran")
	p.fill("dialog input[name=agent]", "asks\r")
	p.wait("location.pathname.startsWith('/console/approvals/')")
	p.sees("The command waits for an answer.")
	p.click("Allow once")
	p.click("Show its output")
	p.wait("location.pathname.startsWith('/console/sessions/')")
	p.sees("it ran")
}

// What begins to wait while the page is not seen is told by the browser, once.
func TestNotification(t *testing.T) {
	g := start(t)
	p := g.browser()
	p.owner("sessions")
	js[bool](p, `(() => {
		window.told = [];
		window.Notification = class { static permission = 'granted'; constructor(title, o) { told.push(title + ': ' + o.body); window.last = this } };
		Object.defineProperty(document, 'hidden', {value: true});
		return true;
	})()`)
	id := g.ask("touch told")
	p.wait("told.join() === 'Corral: a command waits: touch told'")
	js[bool](p, "last.onclick() || true")
	p.wait("location.pathname === '/console/approvals/%s'", id)
}

func TestAllowAlways(t *testing.T) {
	g := common.get(t)
	p := g.browser()
	id := g.ask("git --version")
	p.owner("approvals/" + id)
	p.sees("What “allow always” would remember")
	p.choose("select[aria-label=Scope]", "program")
	p.click("Allow always")
	p.sees("allow-always")
	if rec := g.approval(id); rec.Verdict != approval.AllowAlways || rec.Scope != approval.ScopeProgram {
		t.Errorf("the answer is %q in the scope %q", rec.Verdict, rec.Scope)
	}
	p.open("policy")
	p.fill("input.short", "asks\r")
	p.sees("/git")
}

func TestDeny(t *testing.T) {
	g := start(t)
	p := g.browser()
	ids := make([]string, 3)
	for i := range ids {
		ids[i] = g.ask(fmt.Sprintf("touch file-%d", i))
	}
	p.owner("approvals")
	p.sees("touch file-2")
	p.click("Deny") // the first
	p.wait("document.querySelectorAll('.card').length === 2")
	p.click("Deny all")
	p.sees("Deny all 2 that wait?")
	js[bool](p, "document.querySelector('dialog form').requestSubmit() || true")
	p.sees("Nothing waits for an answer.")
	for _, id := range ids {
		if rec := g.approval(id); rec.Verdict != approval.Deny {
			t.Errorf("%s is answered %q", rec.Text(), rec.Verdict)
		}
	}
}

// Of two browsers the first counts, and the other is told.
func TestTwoBrowsers(t *testing.T) {
	g := common.get(t)
	id := g.ask("touch file")
	one, two := g.browser(), g.browser()
	one.owner("approvals/" + id)
	two.signIn(g.key("approver"), "approvals/"+id)
	two.sees("Allow once")
	one.click("Deny")
	one.sees("deny")
	two.wait("document.querySelector('.state .badge').innerText === 'deny'")
	two.lacks("Allow once")
	two.sees("owner")
}

func TestApproverAndViewer(t *testing.T) {
	g := start(t)
	id := g.ask("touch file")
	p := g.browser()
	p.signIn(g.key("viewer"), "approvals/"+id)
	p.sees("Your key may look, and not answer.")
	if p.offers("Allow once") || p.offers("Deny") {
		t.Error("a viewer is offered an answer")
	}
	p.open("approvals")
	p.sees("touch file")
	if p.offers("Allow once") || p.offers("Deny") {
		t.Error("a viewer is offered an answer in the list")
	}
	p.open("approvals/nonesuch")
	p.sees("This approval is answered, expired or unknown.")
}

// What is not seen, or looks like something else, is shown by its number.
func TestUnseenCharacters(t *testing.T) {
	g := start(t)
	id := g.ask("touch a\u202etxt.exe; touch b\u200bc")
	p := g.browser()
	p.owner("approvals/" + id)
	p.sees("U+202E")
	p.sees("U+200B")
	if text := js[string](p, "document.querySelector('main').innerText"); strings.ContainsAny(text, "\u202e\u200b") {
		t.Error("it is on the page as it is")
	}
}
