//go:build e2e

package console_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// screen is what a terminal shows, cell by cell: characters, colours and the cursor.
const screen = `(() => {
	const t = document.querySelector('.screen')?.xterm;
	if (!t) return '';
	const b = t.buffer.active, out = [t.rows + 'x' + t.cols + ' ' + b.type + ' cursor ' + b.cursorX + ',' + b.cursorY];
	for (let y = 0; y < t.rows; y++) {
		const line = b.getLine(b.baseY + y);
		let text = '', style = '', now = '';
		for (let x = 0; x < t.cols; x++) {
			const c = line.getCell(x);
			text += c.getChars() || ' ';
			const s = [c.getFgColorMode(), c.getFgColor(), c.getBgColorMode(), c.getBgColor(), c.isBold(), c.isInverse()].join();
			if (s !== now) style += '|' + x + ':' + (now = s);
		}
		out.push(text.trimEnd() + ' ' + style);
	}
	return out.join('\n');
})()`

func (p *tab) screenHas(text string) {
	p.t.Helper()
	p.wait("%s.includes(%s)", screen, quoted(text))
}

// still waits until the screen does not change any more.
func (p *tab) still() string {
	p.t.Helper()
	last := ""
	p.g.eventually("the screen is still", func() bool {
		now := js[string](p, "%s", screen)
		same := now == last && now != ""
		last = now
		time.Sleep(300 * time.Millisecond)
		return same
	})
	return last
}

func TestTerminal(t *testing.T) {
	g := start(t)
	p := g.browser()
	p.owner("terminals")
	p.sees("No terminal is open.")
	p.click("New terminal")
	p.fill("dialog input[name=command]", "sh")
	js[bool](p, "document.querySelector('dialog form').requestSubmit() || true")
	p.wait("location.pathname.startsWith('/console/terminals/')")
	p.has(".screen[data-state=on]")
	p.keys("echo $((6*7))-answer\r")
	p.screenHas("42-answer")
	p.keys(`printf '\033[38;2;1;2;3mexactly coloured'` + "\r")
	p.wait("[...document.querySelectorAll('.screen span')].some((e) => e.style.color === 'rgb(1, 2, 3)')")
	p.keys("stty size\r")
	size := js[string](p, "(() => { const t = document.querySelector('.screen').xterm; return t.rows + ' ' + t.cols })()")
	p.screenHas(size)
	// What is found or selected is copied, and the program learns how large its window is.
	js[bool](p, "(navigator.clipboard.writeText = (t) => { window.clip = t; return Promise.resolve() }) && true")
	p.fill("input[aria-label=Find]", "42-answer\r")
	p.wait("document.querySelector('.screen').xterm.getSelection() === '42-answer'")
	js[bool](p, "document.querySelector('.screen').dispatchEvent(new MouseEvent('mouseup', {bubbles: true}))")
	p.wait("window.clip === '42-answer'")
	p.do(chromedp.EmulateViewport(1000, 600))
	p.wait("document.querySelector('.screen').xterm.rows + ' ' + document.querySelector('.screen').xterm.cols !== %s", quoted(size))
	js[bool](p, "document.querySelector('.screen').xterm.focus() || true")
	p.keys("stty size\r")
	p.screenHas(js[string](p, "(() => { const t = document.querySelector('.screen').xterm; return t.rows + ' ' + t.cols })()"))
	// A title is text; a program may write the clipboard if its user allows it.
	p.keys(`printf '\033]0;<img src=x onerror=ran(1)>\a\033]52;c;?\a\033]52;c;aGVsbG8=\a done'` + "\r")
	p.wait("document.title.includes('<img')")
	p.sees("The program wants to put this on your clipboard:")
	if clip := js[string](p, "window.clip"); clip != "42-answer" {
		t.Errorf("before anybody was asked the clipboard has %q", clip)
	}
	p.click("Allow")
	p.wait("window.clip === 'hello'")
	// The user may be typing just then, and sees all that would be put there.
	p.keys(`sleep 1; printf '\033]52;c;%s\a' "$(printf '%2500s\033[201~end' | base64 | tr -d '\n')"` + "\r")
	p.sees("The program wants to put this on your clipboard:")
	p.sees("U+001B[201~end")
	p.keys("\r")
	p.wait("!document.querySelector('dialog')")
	if clip := js[string](p, "window.clip"); clip != "hello" {
		t.Errorf("by a key that was pressed for the terminal the clipboard has %q", clip)
	}
	// Some reports of the mouse are bytes, and no text.
	p.keys(`stty raw -echo; echo ready-$((1+1)); head -c 3 | od -An -tx1; stty sane` + "\r")
	p.screenHas("ready-2")
	js[bool](p, `document.querySelector('.screen').xterm._core.coreService.triggerBinaryEvent('\xe9\x80A') || true`)
	p.screenHas("e9 80 41")
	p.click("Session")
	p.wait("location.pathname.startsWith('/console/sessions/')")
	p.click("Open terminal")
	p.screenHas("42-answer")
	p.click("‹")
	p.sees("sh")
}

// Of several terminals one is shown, and the others are a click away.
func TestTerminalTabs(t *testing.T) {
	g := common.get(t)
	for _, name := range []string{"left", "right"} {
		g.session("tabs", `{"command":"echo in the `+name+`; cat","description":"`+name+`","tty":{"rows":24,"cols":80},"host":"gateway"}`)
	}
	p := g.browser()
	p.owner("terminals")
	p.click("left")
	p.screenHas("in the left")
	p.click("right · gateway")
	p.screenHas("in the right")
	p.wait("document.querySelector('.tabs [aria-current]').innerText === 'right · gateway'")
	p.click("Stop")
	p.confirm("Stop the session and all that it started?")
	p.sees("The session has ended")
	p.wait("![...document.querySelectorAll('.tabs a')].some((a) => a.innerText.startsWith('right'))")
}

// A connection on which nothing comes any more, as after a sleep or on another network,
// is given up, and the screen goes on where it was.
func TestTerminalOnAnotherNetwork(t *testing.T) {
	g := start(t)
	id := g.session("main", `{"command":"echo one; until [ -e go ]; do sleep 0.1; done; echo two; cat","tty":{"rows":24,"cols":80}}`)
	key := g.key("operator")
	way := newWay(t, g.url)
	g.url = way.url
	p := g.browser()
	p.signIn(key, "terminals/"+id+"?agent=main")
	p.has(".screen[data-state=on]")
	p.screenHas("one")
	way.freeze()
	g.write("go", "")
	p.screenHas("two")
	p.has(".screen[data-state=on]")
	p.keys("three\r")
	p.screenHas("three")
	if text := p.still(); strings.Count(text, "one") != 1 || strings.Count(text, "two") != 1 || strings.Count(text, "three") != 2 {
		t.Errorf("the screen is\n%s", text)
	}
}

// vim's screen is the same, cell by cell, after the page is loaded again, and after the
// gateway was killed.
func TestTerminalComesBack(t *testing.T) {
	g := start(t)
	services, err := os.ReadFile("/etc/services")
	if err != nil {
		t.Fatal(err)
	}
	g.write("services", string(services))
	id := g.session("main", `{"command":"vim -u NONE -N -n -c 'set number' -c 'syntax on' services","env":{"TERM":"xterm-256color"},"tty":{"rows":24,"cols":80}}`)
	p := g.browser()
	p.owner("terminals/" + id + "?agent=main")
	p.screenHas("tcpmux")
	p.keys("20jOx marks the spot\x1b:vsplit\r")
	p.screenHas("x marks the spot")
	before := p.still()

	p.do(chromedp.Reload())
	p.screenHas("x marks the spot")
	if after := p.still(); after != before {
		t.Errorf("after a reload the screen is\n%s\nand was\n%s", after, before)
	}
	g.kill()
	p.has(".screen[data-state=lost]")
	time.Sleep(500 * time.Millisecond)
	g.run()
	p.has(".screen[data-state=on]")
	if after := p.still(); after != before {
		t.Errorf("after a kill the screen is\n%s\nand was\n%s", after, before)
	}
	p.keys("gg0iand on\x1b")
	p.screenHas("and on")
	p.keys(":qa!\r")
	p.sees("The session has ended: exit 0.")
}

func TestTerminalReadOnly(t *testing.T) {
	g := common.get(t)
	id := g.session("main", `{"command":"cat","tty":{"rows":24,"cols":80}}`)
	p := g.browser()
	p.owner("terminals/" + id + "?agent=main")
	p.has(".screen[data-state=on]")
	p.click2("main input[type=checkbox]")
	js[bool](p, "document.querySelector('.screen').xterm.focus() || true")
	p.keys("not sent\r")
	p.click2("main input[type=checkbox]")
	js[bool](p, "document.querySelector('.screen').xterm.focus() || true")
	p.keys("sent\r")
	p.screenHas("sent")
	if text := p.still(); strings.Contains(text, "not sent") {
		t.Errorf("the screen is %s", text)
	}
}

// click2 clicks on what a selector finds.
func (p *tab) click2(selector string) {
	p.t.Helper()
	p.has(selector)
	js[bool](p, "document.querySelector(%s).click() || true", quoted(selector))
}

// 100 MB go through a terminal, and the page answers all the while.
func TestTerminalFlood(t *testing.T) {
	g := start(t)
	id := g.session("main", `{"command":"read x; seq 13000000 | head -c 100000000; echo; echo the end; read x","tty":{"rows":24,"cols":80}}`)
	p := g.browser()
	p.owner("terminals/" + id + "?agent=main")
	p.has(".screen[data-state=on]")
	js[int](p, "setInterval(() => performance.mark('tick'), 10)")
	begin, before := time.Now(), p.threadTime()
	most := 0.0
	took, computed := p.gaps(func() {
		p.keys("\r")
		for !js[bool](p, `(() => { const b = document.querySelector('.screen').xterm.buffer.active; return b.getLine(b.baseY + b.cursorY - 1)?.translateToString().startsWith('the end') })() || false`) {
			heap, err := chromedp.Run(p.ctx, func(ctx context.Context, _ *chromedp.Target) (runtime.GetHeapUsageResult, error) {
				return chromedp.Call(ctx, runtime.GetHeapUsage, cdp.Empty{})
			})
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, heap.UsedSize+heap.BackingStorageSize)
			if time.Since(begin) > 4*patience {
				t.Fatalf("after %v the screen is\n%s", time.Since(begin), js[string](p, screen))
			}
			time.Sleep(250 * time.Millisecond)
		}
	})
	t.Logf("in %v, of which the page's thread computed %.1f s; it computed %.0f ms at most before it could answer, and the longest that it took was %.0f ms; the heap had %.0f MB at most", time.Since(begin), p.threadTime()-before, computed.computed, took.took, most/1e6)
	if computed.computed > limit(100) {
		t.Errorf("the page did not answer for %.0f ms", computed.computed)
	}
	if most == 0 || most > 300e6 {
		t.Errorf("the heap had %.0f MB", most/1e6)
	}
}

// Of two people at one terminal one types, and the other looks on, until they take over.
func TestTakeOver(t *testing.T) {
	g := common.get(t)
	id := g.session("main", `{"command":"cat","tty":{"rows":24,"cols":80},"host":"gateway"}`)
	one, two := g.browser(), g.browser()
	one.owner("terminals/" + id + "?agent=main")
	one.has(".screen[data-state=on]")
	one.keys("first\r")
	one.screenHas("first")
	two.signIn(g.key("operator"), "terminals/"+id+"?agent=main")
	two.screenHas("first")
	two.sees("owner types in this session")
	js[bool](two, "document.querySelector('.screen').xterm.focus() || true")
	two.keys("not sent\r")
	two.click("Take over")
	two.lacks("types in this session")
	two.keys("second\r")
	one.screenHas("second")
	js[bool](one, "document.querySelector('.screen').xterm.focus() || true")
	one.keys("x")
	one.sees("types in this session")
	if text := one.still(); strings.Contains(text, "not sent") {
		t.Errorf("the screen is %s", text)
	}
}
