//go:build e2e

// Package console_test looks at the console in a browser, against a real gateway.
package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/testnet"
)

func TestMain(m *testing.M) {
	code := m.Run()
	chromium.stop()
	common.stop()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long something may take on a machine under load.
const patience = 30 * time.Second

// limit is how many milliseconds the page's thread may compute before it answers: three
// times what is promised where CI runs, whose processors are shared.
func limit(promised float64) float64 {
	if os.Getenv("CI") != "" {
		return 3 * promised
	}
	return promised
}

// configuration: main may do what it likes on this machine, the agent asks has to ask, and
// others work elsewhere.
const configuration = `{
  tools: {exec: {host: "gateway", security: "full", ask: "off"}},
  agents: {list: [
    {id: "asks", tools: {exec: {security: "allowlist", ask: "on-miss"}}},
    {id: "boxed", tools: {exec: {host: "sandbox"}}},
    {id: "far", tools: {exec: {host: "node"}}},
  ]},
}`

// A gateway is one that runs, as a process of its own.
type gateway struct {
	t     testing.TB
	dir   string
	port  int
	flags []string
	url   string
	c     *client.Client
	cmd   *exec.Cmd
	log   *logtest.Log
}

func start(t testing.TB, flags ...string) *gateway {
	t.Helper()
	g := launch(t, testdir.New(t), flags...)
	t.Cleanup(func() {
		g.stop()
		if t.Failed() {
			t.Logf("the gateway's log:\n%s", g.log.String())
		}
	})
	return g
}

// launch starts a gateway that keeps all in a directory. It is to be stopped.
func launch(t testing.TB, dir string, flags ...string) *gateway {
	t.Helper()
	port := testnet.FreePort(t)
	g := &gateway{t: t, dir: dir, port: port, flags: flags, log: &logtest.Log{}, url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	for name, text := range map[string]string{"corral.json5": configuration, "state/exec-approvals.json": `{"version":1,"defaults":{"security":"full","ask":"off"}}`} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	g.run()
	return g
}

// env are the variables of a gateway. It does not get those of the test, since pages show some.
func (g *gateway) env() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains([]string{"PATH", "DOCKER_HOST", "CONTAINERD_ADDRESS", "TMPDIR", "LANG"}, name)
	})
	return append(env, "CORRAL_STATE_DIR="+filepath.Join(g.dir, "state"), "CORRAL_CONFIG="+filepath.Join(g.dir, "corral.json5"), "XDG_CONFIG_HOME="+g.dir, "CORRAL_URL=", "CORRAL_CONTEXT=",
		"SHELL=/bin/sh", "HOME="+g.dir) // not the profile of who tests, which may take its time
}

// run starts the gateway's process.
func (g *gateway) run() {
	g.t.Helper()
	g.cmd = exec.Command(built.Program(g.t, "cmd/corral"), append([]string{"gateway", "--listen", fmt.Sprintf("127.0.0.1:%d", g.port), "--workspace", filepath.Join(g.dir, "work")}, g.flags...)...)
	g.cmd.Env, g.cmd.Stdout, g.cmd.Stderr = g.env(), g.log, g.log
	g.cmd.Dir = g.dir
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	c, err := client.New(client.Options{Socket: filepath.Join(g.dir, "state", api.SocketFile)})
	if err != nil {
		g.t.Fatal(err)
	}
	g.c = c
	g.eventually("the gateway is ready", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return c.Ready(ctx) == nil
	})
}

func (g *gateway) stop() {
	g.t.Helper()
	if err := g.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		g.t.Error(err)
	}
	_ = g.cmd.Wait() // by the signal
	if err := g.c.Close(); err != nil {
		g.t.Error(err)
	}
}

// kill kills the gateway as kill -9 does. What it runs goes on.
func (g *gateway) kill() {
	g.t.Helper()
	if err := g.cmd.Process.Kill(); err != nil {
		g.t.Fatal(err)
	}
	_ = g.cmd.Wait() // by the signal
	if err := g.c.Close(); err != nil {
		g.t.Error(err)
	}
}

func (g *gateway) eventually(what string, is func() bool) {
	g.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			g.t.Fatalf("not within %v: %s\n%s", patience, what, g.log.String())
		}
	}
}

// corral runs the command line.
func (g *gateway) corral(args ...string) string {
	g.t.Helper()
	out, err := g.tryCorral(args...)
	if err != nil {
		g.t.Fatalf("corral %q: %v\n%s", args, err, out)
	}
	return out
}

func (g *gateway) tryCorral(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, built.Program(g.t, "cmd/corral"), args...)
	cmd.Env, cmd.Dir = g.env(), g.dir
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// post calls the API by the Unix socket, as an agent.
func (g *gateway) post(agent, path, body string) map[string]any {
	g.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(g.dir, "state", api.SocketFile))
	}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Content-Type", api.TypeJSON)
	r.Header.Set(api.HeaderAgent, agent)
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	answer := map[string]any{}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &answer); err != nil {
			g.t.Fatalf("%s: %v", data, err)
		}
	}
	return answer
}

// write writes a file in the workspace.
func (g *gateway) write(name, text string) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, "work", name), []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// session starts a session and returns its ID.
func (g *gateway) session(agent, body string) string {
	g.t.Helper()
	answer := g.post(agent, "/v1/sessions", body)
	id, _ := answer["sessionId"].(string)
	if id == "" {
		g.t.Fatalf("the answer is %v", answer)
	}
	return id
}

// ask has an agent ask for a command, and returns the approval's ID.
func (g *gateway) ask(command string) string {
	g.t.Helper()
	body, err := json.Marshal(map[string]string{"command": command, "host": "gateway"})
	if err != nil {
		g.t.Fatal(err)
	}
	answer := g.post("asks", "/v1/exec", string(body))
	id, _ := answer["approvalId"].(string)
	if id == "" {
		g.t.Fatalf("nothing is asked: %v", answer)
	}
	return id
}

// key makes a key and returns its secret.
func (g *gateway) key(role string, agents ...string) string {
	g.t.Helper()
	made, err := g.c.NewKey(g.t.Context(), client.NewKey{Name: role + "-" + fmt.Sprint(time.Now().UnixNano()), Role: role, Agents: agents})
	if err != nil {
		g.t.Fatal(err)
	}
	return made.Secret
}

// A tab is one of a browser, at the gateway.
type tab struct {
	t   testing.TB
	g   *gateway
	ctx context.Context

	mu    sync.Mutex
	wrong []string // what must not happen on a page
}

// chromium is the browser of all tests, which is started once.
var chromium browserProcess

type browserProcess struct {
	once sync.Once
	ctx  context.Context
	end  []func()
	err  error
}

func (b *browserProcess) start() (context.Context, error) {
	b.once.Do(func() {
		alloc, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath("chromium-headless-shell"), chromedp.NoSandbox, chromedp.WindowSize(1280, 800))...)
		ctx, cancel := chromedp.NewContext(alloc)
		b.ctx, b.end = ctx, []func(){cancel, stop}
		b.err = chromedp.Do(ctx, chromedp.Func(func(context.Context, *chromedp.Target) error { return nil }))
	})
	return b.ctx, b.err
}

func (b *browserProcess) stop() {
	for _, end := range b.end {
		end()
	}
}

// browser opens a tab that shares no cookie or storage with others. In it nothing may be
// refused by the pages' policy, throw, or go to another host.
func (g *gateway) browser() *tab {
	g.t.Helper()
	all, err := chromium.start()
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(all, chromedp.WithNewBrowserContext())
	return g.newTab(ctx, cancel)
}

// another opens another tab of the same browser.
func (p *tab) another() *tab {
	p.t.Helper()
	return p.g.newTab(chromedp.NewContext(p.ctx))
}

func (g *gateway) newTab(ctx context.Context, cancel context.CancelFunc) *tab {
	g.t.Helper()
	p := &tab{t: g.t, g: g, ctx: ctx}
	g.t.Cleanup(func() {
		p.fine()
		cancel()
	})
	p.do(chromedp.Func(func(ctx context.Context, tg *chromedp.Target) error { return nil }))
	if err := chromedp.Listen(ctx, p.event); err != nil {
		g.t.Fatal(err)
	}
	p.do(chromedp.Func(func(ctx context.Context, tg *chromedp.Target) error {
		if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		// A tab behind others draws nothing.
		if _, err := chromedp.Call(ctx, page.BringToFront, cdp.Empty{}); err != nil {
			return err
		}
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
			addEventListener('securitypolicyviolation', (e) => console.error('CSP ' + e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sourceFile + ':' + e.lineNumber + ':' + e.columnNumber));
			window.ran = (what) => console.error('RAN ' + what);
			window.alert = () => console.error('RAN alert');`})
		return err
	}))
	return p
}

func (p *tab) event(ev any) {
	note := func(format string, args ...any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wrong = append(p.wrong, fmt.Sprintf(format, args...))
	}
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		data, _ := json.Marshal(ev.ExceptionDetails) // for a test's log
		note("exception: %s", data)
	case *runtime.EventConsoleAPICalled:
		if ev.Type == "error" {
			data, _ := json.Marshal(ev.Args) // for a test's log
			note("console: %s", data)
		}
	case *network.EventRequestWillBeSent:
		u := ev.Request.URL
		if !strings.HasPrefix(u, p.g.url+"/") && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "blob:"+p.g.url+"/") && u != "about:blank" {
			note("a request to %s", u)
		}
	}
}

// fine checks that nothing wrong has happened.
func (p *tab) fine() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.wrong {
		p.t.Error(w)
	}
	p.wrong = nil
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// js evaluates an expression. A promise is waited for.
func js[T any](p *tab, format string, args ...any) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](fmt.Sprintf(format, args...), chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%v\n%.2000s", err, format)
	}
	return v
}

// wait waits until an expression is true.
func (p *tab) wait(format string, args ...any) {
	p.t.Helper()
	expr := fmt.Sprintf(format, args...)
	for end := time.Now().Add(patience); ; time.Sleep(25 * time.Millisecond) {
		ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("!!("+expr+")"))
		if ok && err == nil {
			return
		}
		if time.Now().After(end) {
			p.fine()
			text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string]("location.href + '\\n' + document.body.innerText")) // for the test's log
			p.shot(filepath.Join(os.TempDir(), "corral-console-failed.png"))
			p.t.Fatalf("not within %v: %s (%v)\nthe page:\n%.3000s", patience, expr, err, text)
		}
	}
}

func quoted(text string) string {
	data, _ := json.Marshal(text) // of a string it never fails
	return string(data)
}

// sees waits for a text on the page; lacks, until it is gone.
func (p *tab) sees(text string) {
	p.t.Helper()
	p.wait("document.body.innerText.includes(%s)", quoted(text))
}

func (p *tab) lacks(text string) {
	p.t.Helper()
	p.wait("!document.body.innerText.includes(%s)", quoted(text))
}

func (p *tab) has(selector string) {
	p.t.Helper()
	p.wait("document.querySelector(%s)", quoted(selector))
}

// control is the button, link or tab that says a text; in a dialog, if one is open.
const control = `(() => {
	const root = [...document.querySelectorAll('dialog[open]')].pop() || document;
	return [...root.querySelectorAll('button, a, label.button, summary, [role=option]')].find((e) => e.innerText.trim() === %[1]s && !e.disabled && e.getClientRects().length) ||
		[...root.querySelectorAll('a, button')].find((e) => e.innerText.trim().includes(%[1]s) && !e.disabled && e.getClientRects().length);
})()`

// click clicks on what says a text.
func (p *tab) click(text string) {
	p.t.Helper()
	p.wait(control, quoted(text))
	js[bool](p, `(() => { const e = %s; e.scrollIntoView({block: 'center'}); e.click(); return true })()`, fmt.Sprintf(control, quoted(text)))
}

// offers reports whether there is something to click on that says a text.
func (p *tab) offers(text string) bool {
	p.t.Helper()
	return js[bool](p, "!!"+control, quoted(text))
}

// fill types into a field: a selector.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.wait(`(() => { const e = document.querySelector(%s); e?.focus(); e?.select?.(); return e && document.activeElement === e })()`, quoted(selector))
	p.do(chromedp.KeyEvent(text))
}

// choose chooses of a list.
func (p *tab) choose(selector, value string) {
	p.t.Helper()
	p.has(selector)
	js[bool](p, `(() => { const e = document.querySelector(%s); e.value = %s; e.dispatchEvent(new Event('change', {bubbles: true})); return e.value === %s })()`, quoted(selector), quoted(value), quoted(value))
}

// keys types on a terminal: characters, and \r, \x1b.
func (p *tab) keys(text string) {
	p.t.Helper()
	for _, c := range text {
		k := input.DispatchKeyEventParams{Type: "keyDown", Key: string(c), Text: string(c), UnmodifiedText: string(c)}
		switch {
		case c == '\r':
			k.Key, k.Code, k.WindowsVirtualKeyCode = "Enter", "Enter", 13
		case c == '\x1b':
			k.Key, k.Code, k.WindowsVirtualKeyCode, k.Text, k.UnmodifiedText = "Escape", "Escape", 27, "", ""
		case c >= 'a' && c <= 'z':
			k.WindowsVirtualKeyCode = int64(c - 'a' + 'A')
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == ' ':
			k.WindowsVirtualKeyCode = int64(c)
		}
		p.do(chromedp.Func(func(ctx context.Context, tg *chromedp.Target) error {
			if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, k); err != nil {
				return err
			}
			k.Type, k.Text, k.UnmodifiedText = "keyUp", "", ""
			_, err := chromedp.Call(ctx, input.DispatchKeyEvent, k)
			return err
		}))
	}
}

func (p *tab) open(path string) {
	p.t.Helper()
	p.goTo(p.g.url + "/console/" + path)
}

// goTo loads a page, once more for each time that Chromium gave up because a container of
// this machine came or went.
func (p *tab) goTo(url string) {
	p.t.Helper()
	for {
		err := chromedp.Do(p.ctx, chromedp.Navigate(url))
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "net::ERR_NETWORK_CHANGED") {
			p.t.Fatal(err)
		}
	}
}

// signIn signs in by a key, and opens a path.
func (p *tab) signIn(secret, path string) {
	p.t.Helper()
	p.open(path)
	p.fill("input[name=key]", secret)
	p.click("Sign in")
	p.has("nav")
}

// owner signs in by a link as corral console has it, which opens a path.
func (p *tab) owner(path string) {
	p.t.Helper()
	link, err := p.g.c.ConsoleLink(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	_, secret, _ := strings.Cut(link.URL, "#")
	p.open(path + "#" + secret)
	p.has("nav")
}

// visit goes to a path within the page that is loaded.
func (p *tab) visit(path string) {
	p.t.Helper()
	js[bool](p, `(() => { history.pushState(null, '', '/console/' + %s); dispatchEvent(new PopStateEvent('popstate')); return true })()`, quoted(path))
}

func (p *tab) shot(file string) {
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(file, png, 0o600)
	}
	if err != nil {
		p.t.Logf("no screenshot: %v", err)
	}
}
