//go:build e2e

package console_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

func TestSessionTable(t *testing.T) {
	g := start(t)
	p := g.browser()
	p.owner("sessions")
	p.sees("There are no sessions.")
	g.session("main", `{"command":"sleep 1000","description":"the one that stays"}`)
	g.session("other", `{"command":"exit 3"}`)
	g.session("other", `{"command":"echo fine"}`)
	p.wait("document.querySelectorAll('.session').length === 3")
	p.sees("exit 3")
	p.wait("document.querySelector('[data-count]').innerText === '3'")
	p.choose("select[aria-label=State]", "running")
	p.wait("document.querySelectorAll('.session').length === 1")
	p.sees("sleep 1000")
	p.wait("location.search === '?state=running'")
	p.choose("select[aria-label=State]", "")
	p.choose("select[aria-label=Agent]", "other")
	p.wait("document.querySelectorAll('.session').length === 2")
	p.choose("select[aria-label=Agent]", "")
	p.choose("select[aria-label=Host]", "gateway")
	p.wait("location.search === '?host=gateway' && document.querySelectorAll('.session').length === 3")
	p.choose("select[aria-label=Host]", "")
	p.fill("input[type=search]", "one stays")
	p.wait("document.querySelectorAll('.session').length === 1")
	p.do(chromedp.Reload())
	p.wait("document.querySelectorAll('.session').length === 1") // the filter is in the URL
	p.fill("input[type=search]", "nothing like it")
	p.sees("No session is like that.")
}

func TestStartStopSignal(t *testing.T) {
	g := start(t)
	p := g.browser()
	p.owner("sessions")
	p.click("Start")
	p.fill("dialog input[name=command]", `trap "echo got it" USR1; echo ready; while :; do sleep 0.05; done`)
	js[bool](p, "document.querySelector('dialog form').requestSubmit() || true")
	p.sees("ready")
	p.choose("select[aria-label=Signal]", "USR1")
	p.sees("got it")
	p.click("Stop")
	p.sees("Stop the session and all that it started?")
	js[bool](p, "document.querySelector('dialog form').requestSubmit() || true")
	p.sees("killed")
	p.click("Remove")
	p.sees("Remove the session and its output?")
	js[bool](p, "document.querySelector('dialog form').requestSubmit() || true")
	p.sees("There are no sessions.")
}

func TestInputAndColours(t *testing.T) {
	g := common.get(t)
	id := g.session("main", `{"command":"while read line; do printf \"\\033[1;31mred %s\\033[0m plain\\n\" \"$line\"; done; echo over >&2","stdin":true}`)
	p := g.browser()
	p.owner("sessions/" + id + "?agent=main")
	p.fill("form.input input", "one\r")
	p.sees("red one plain")
	p.wait("[...document.querySelectorAll('.line .fg-1.t-bold')].some((e) => e.innerText === 'red one')")
	p.click("End of input")
	p.wait("[...document.querySelectorAll('.line .err')].some((e) => e.innerText === 'over')")
	p.sees("The session has ended: exit 0.")
}

func TestOutputSearchAndOffset(t *testing.T) {
	g := common.get(t)
	id := g.session("main", `{"command":"seq 100000"}`)
	p := g.browser()
	p.owner("sessions/" + id + "?agent=main")
	p.sees("100000")
	p.fill("input[aria-label='Find in output']", "99999")
	p.sees("1 of 1")
	p.wait("document.querySelector('.line.at mark').innerText === '99999'")
	p.fill("input[aria-label='Find in output']", "0000")
	p.sees("1 of 10")
	p.do(chromedp.KeyEvent("\r"))
	p.sees("2 of 10")
	// From an offset on: seq's line 50000 is at byte 288889.
	p.fill("input[aria-label='Find in output']", " ")
	p.fill("input[name=offset]", "288889\r")
	p.sees("The first 282 KiB are not shown.")
	p.wait("document.querySelector('.line').innerText === '0000' || [...document.querySelectorAll('.line')].some((l) => l.innerText.startsWith('500'))")
	p.click("Show from the beginning")
	p.wait("[...document.querySelectorAll('.line')].some((l) => l.innerText === '1')")
	if n := js[int](p, "document.querySelectorAll('.line').length"); n > 200 {
		t.Errorf("%d lines are drawn", n)
	}
}

// What a bounded log has dropped is a gap of known size.
func TestGap(t *testing.T) {
	g := common.get(t)
	id := g.session("main", `{"command":"seq 1000000; sleep 0.1; echo the end","log":{"head":1000,"tail":100000}}`)
	g.corral("wait", id)
	p := g.browser()
	p.owner("sessions/" + id + "?agent=main")
	p.sees("the end")
	p.click("Show from the beginning")
	p.wait("[...document.querySelectorAll('.line')].some((l) => l.innerText === '1')")
	p.wait("[...document.querySelectorAll('.line .note')].length || (document.querySelector('.rows.output').scrollTop += 300, false)")
	if note := js[string](p, "document.querySelector('.line .note').innerText"); !strings.Contains(note, "are not kept any more") {
		t.Errorf("the gap is %q", note)
	}
}

func TestDownloadOutput(t *testing.T) {
	g := common.get(t)
	id := g.session("main", `{"command":"seq 1000"}`)
	g.corral("wait", id)
	p := g.browser()
	p.owner("sessions/" + id + "?agent=main")
	dir := p.downloads()
	p.click("Download")
	var want strings.Builder
	for i := range 1000 {
		fmt.Fprintln(&want, i+1)
	}
	g.eventually("the output is downloaded", func() bool {
		data, err := os.ReadFile(filepath.Join(dir, id+".log"))
		return err == nil && string(data) == want.String()
	})
}

// Output goes on where it was when the gateway dies.
func TestOutputOverKill(t *testing.T) {
	g := start(t)
	id := g.session("main", `{"command":"for i in $(seq 1 60); do echo line $i; sleep 0.05; done"}`)
	p := g.browser()
	p.owner("sessions/" + id + "?agent=main")
	p.sees("line 5\n")
	g.kill()
	p.sees("Reconnecting…")
	g.run()
	p.sees("The session has ended: exit 0.")
	p.click("Download")
	lines := js[string](p, `fetch('/v1/sessions/%s/output', {headers: {'Corral-Console': localStorage['corral.token']}}).then((r) => r.text())`, id)
	if strings.Count(lines, "\n") != 60 {
		t.Errorf("there are %d lines", strings.Count(lines, "\n"))
	}
	js[bool](p, "document.querySelector('input[type=checkbox]').checked && document.querySelector('input[type=checkbox]').click(), document.querySelector('.rows.output').scrollTop = 0, true")
	p.wait("document.querySelector('.rows .all').style.height === '1080px'") // 60 lines, none twice
}

// Ten thousand sessions are scrolled through smoothly.
func TestManySessions(t *testing.T) {
	g := start(t)
	p := g.browser()
	p.owner("")
	// The gateway keeps fewer that have ended: the page is given them by a stand-in for fetch.
	js[bool](p, `(() => {
		const real = fetch;
		const started = Date.now();
		const all = new TextEncoder().encode(JSON.stringify({sessions: Array.from({length: 10000}, (_, i) => ({
			sessionId: 's' + i, agent: 'agent-' + i %% 7, status: i %% 5 ? 'completed' : 'running', exit: {exitCode: i %% 3}, name: 'n', command: 'command number ' + i, pid: i, host: 'gateway', sandboxed: false,
			cwd: '/', startedAt: new Date(started - i * 1000).toISOString(), background: true, outputBytes: i * 1000}))}));
		window.fetch = (path, o) => path.startsWith('/v1/sessions?') ? Promise.resolve(new Response(all)) : real(path, o);
		return true;
	})()`)
	p.click("Sessions")
	p.wait("document.querySelector('[data-count]')?.innerText === '10000'")
	took, computed := p.gaps(func() {
		js[bool](p, `(async () => {
			const rows = document.querySelector('.rows.sessions');
			const frame = () => new Promise(requestAnimationFrame);
			for (let i = 0; i < 120; i++) {
				await frame();
				performance.mark('tick');
				rows.scrollTop += 1500;
			}
			return true;
		})()`)
	})
	if n := js[int](p, "document.querySelectorAll('.session').length"); n == 0 || n > 100 {
		t.Errorf("%d rows are drawn", n)
	}
	if !js[bool](p, "document.querySelector('.session').innerText.includes('command number')") {
		t.Error("the rows are empty")
	}
	t.Logf("a frame takes %.1f ms of the page's thread at most; the longest took %.1f ms in all", computed.computed, took.took)
	if computed.computed > limit(50) { // beside other tests a frame also waits for a processor, which is not the page's doing
		t.Errorf("a frame takes %.1f ms of the page's thread", computed.computed)
	}
}

// threadTime is how long the page's thread has computed, in seconds.
func (p *tab) threadTime() float64 {
	p.t.Helper()
	r, err := chromedp.Run(p.ctx, func(ctx context.Context, _ *chromedp.Target) (performance.GetMetricsResult, error) {
		if _, err := chromedp.Call(ctx, performance.Enable, performance.EnableParams{}); err != nil {
			return performance.GetMetricsResult{}, err
		}
		return chromedp.Call(ctx, performance.GetMetrics, cdp.Empty{})
	})
	if err != nil {
		p.t.Fatal(err)
	}
	i := slices.IndexFunc(r.Metrics, func(m *performance.Metric) bool { return m.Name == "ThreadTime" })
	if i < 0 {
		p.t.Fatalf("the browser does not say how long the thread computed: %v", r.Metrics)
	}
	return r.Metrics[i].Value
}
