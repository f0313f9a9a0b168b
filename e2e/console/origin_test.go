//go:build e2e

package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// A page of another port of this machine, to which the browser sends the same cookies,
// gets nothing, changes nothing, and cannot show the console.
func TestAnotherOrigin(t *testing.T) {
	g := start(t)
	id := g.session("main", `{"command":"cat","stdin":true,"tty":{"rows":24,"cols":80}}`)
	asked := g.ask("touch file")
	var mu sync.Mutex
	var cookies []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		cookies = append(cookies, r.Header.Get("Cookie"))
		mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<iframe src="%[1]s/console/approvals/%[2]s"></iframe>
			<form id=f method=post enctype="text/plain" target=t action="%[1]s/v1/approvals/%[2]s"><input name='{"decision":"allow-once","x":"' value='"}'></form><iframe name=t></iframe>`, g.url, asked)
	}))
	defer other.Close()
	p := g.browser()
	p.owner("")
	p.fine()
	p.goTo(strings.Replace(other.URL, "localhost", "127.0.0.1", 1))
	answers := js[[]string](p, `(async () => {
		const gw = %s, out = [];
		const reach = async (what, o) => { try { const r = await fetch(gw + what, {credentials: 'include', ...o}); out.push('read ' + what + ' ' + r.status); } catch { out.push('refused'); } };
		await reach('/v1/sessions');
		await reach('/v1/key');
		await reach('/v1/events?once');
		await reach('/v1/sessions/%[2]s/kill', {method: 'POST'});
		await reach('/v1/sessions/%[2]s/kill', {method: 'POST', mode: 'no-cors'});
		await reach('/v1/approvals/%[3]s', {method: 'POST', body: '{"decision":"allow-once"}', headers: {'Content-Type': 'text/plain'}});
		document.getElementById('f').submit();
		for (const protocols of [['corral.attach.v1'], ['corral.attach.v1', 'corral.console.x']]) {
			out.push(await new Promise((resolve) => {
				const ws = new WebSocket(gw.replace('http', 'ws') + '/v1/sessions/%[2]s/attach', protocols);
				ws.onopen = () => resolve('opened a WebSocket');
				ws.onerror = () => resolve('refused');
			}));
		}
		await new Promise((r) => setTimeout(r, 300));
		return out;
	})()`, quoted(g.url), id, asked)
	for _, a := range answers {
		if a != "refused" && !strings.HasPrefix(a, "read /v1/sessions/"+id+"/kill 0") { // an opaque answer says nothing
			t.Errorf("the page could: %s", a)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(cookies) == 0 || !strings.Contains(strings.Join(cookies, ";"), "corral-") {
		t.Errorf("the browser sent the other port the cookies %q: the test shows nothing", cookies)
	}
	if rec := g.approval(asked); rec.Verdict != "" {
		t.Errorf("the approval was answered %q", rec.Verdict)
	}
	tree, err := chromedp.Run(p.ctx, func(ctx context.Context, _ *chromedp.Target) (page.GetFrameTreeResult, error) {
		return chromedp.Call(ctx, page.GetFrameTree, cdp.Empty{})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tree.FrameTree.ChildFrames {
		if strings.HasPrefix(f.Frame.URL, g.url+"/console") {
			t.Errorf("the console is shown in a frame: %s", f.Frame.URL)
		}
	}
	if answer := g.post("main", "/v1/sessions/"+id+"/signal", `{"signal":"KILL"}`); answer["error"] != nil {
		t.Errorf("the session does not run any more: %v", answer)
	}
	p.mu.Lock()
	p.wrong = nil // the browser says of each what it refused
	p.mu.Unlock()
}

// The first page is small, and quickly there.
func TestFirstPage(t *testing.T) {
	g := common.get(t)
	p := g.browser()
	p.owner("")
	p.do(chromedp.Reload())
	p.has("nav")
	size := js[float64](p, "performance.getEntriesByType('resource').filter((e) => e.name.includes('/assets/')).reduce((n, e) => n + e.encodedBodySize, 0)")
	ready := js[float64](p, "performance.getEntriesByType('navigation')[0].domInteractive")
	t.Logf("%.0f bytes; interactive after %.0f ms", size, ready)
	if size == 0 || size > 250<<10 {
		t.Errorf("the first page has %.0f bytes", size)
	}
	if js[bool](p, "performance.getEntriesByType('resource').some((e) => e.name.includes('xterm'))") {
		t.Error("the terminal is loaded before it is needed")
	}
}
