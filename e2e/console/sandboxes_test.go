//go:build e2e

package console_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
)

func (p *tab) confirm(question string) {
	p.t.Helper()
	p.sees(question)
	js[bool](p, "document.querySelector('dialog[open] form').requestSubmit() || true")
	p.wait("!document.querySelector('dialog[open]')")
}

// downloads has the browser save files in a directory.
func (p *tab) downloads() string {
	p.t.Helper()
	dir := p.t.TempDir()
	p.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.CallBrowser(ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
			Behavior: "allow", DownloadPath: dir, BrowserContextID: chromedp.FromContext(ctx).BrowserContextID,
		})
		return err
	}))
	return dir
}

func (g *gateway) downloaded(file string) []byte {
	g.t.Helper()
	var data []byte
	g.eventually(file+" is downloaded", func() (ok bool) {
		var err error
		data, err = os.ReadFile(file)
		return err == nil && len(data) > 0
	})
	return data
}

func startWithSandbox(t *testing.T) *gateway {
	t.Helper()
	enginetest.New(t) // with the image
	return start(t, "--sandbox", "all", "--image", images.Busybox, "--workspace-access", "none")
}

func TestSandbox(t *testing.T) {
	g := startWithSandbox(t)
	p := g.browser()
	p.owner("sandboxes")
	p.sees("There are no sandboxes.")
	g.session("boxed", `{"command":"mkdir -p d && printf 'hello\n' >d/greeting && sleep 1000"}`)
	p.click("boxed")
	p.wait("location.pathname === '/console/sandboxes/boxed'")
	p.sees(images.Busybox)
	p.sees("Usage")
	p.wait("document.querySelector('.meter b')?.innerText.includes('iB')")

	// Files: browse, view, download.
	p.click("d/")
	p.click("greeting")
	p.wait("document.querySelector('dialog pre.file').innerText === 'hello\\n'")
	dir := p.downloads()
	p.click("Download")
	if data := g.downloaded(filepath.Join(dir, "greeting")); string(data) != "hello\n" {
		t.Errorf("the file is %q", data)
	}
	p.click("Close")
	p.click("Download as tar")
	if data := g.downloaded(filepath.Join(dir, "boxed.tar")); !bytes.Contains(data, []byte("greeting")) {
		t.Errorf("the archive has %d bytes", len(data))
	}

	// Upload, by the button and by dropping; make a directory; remove.
	local := filepath.Join(t.TempDir(), "up & down.txt")
	if err := os.WriteFile(local, []byte("uploaded"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.SetUploadFiles("input[type=file]", []string{local}))
	p.sees("Uploaded up & down.txt.")
	p.click("up & down.txt")
	p.wait("document.querySelector('dialog pre.file').innerText === 'uploaded'")
	p.click("Close")
	js[bool](p, `(() => { const d = new DataTransfer(); d.items.add(new File(['dropped'], 'dropped.txt')); document.querySelector('.drop').dispatchEvent(new DragEvent('drop', {dataTransfer: d, bubbles: true, cancelable: true})); return true })()`)
	p.click("dropped.txt")
	p.wait("document.querySelector('dialog pre.file').innerText === 'dropped'")
	p.click("Close")
	p.click("New directory")
	p.fill("dialog input[name=name]", "made\r")
	p.sees("made/")
	js[bool](p, "[...document.querySelectorAll('tr')].find((r) => r.innerText.includes('dropped.txt')).querySelector('button.danger').click() || true")
	p.confirm("Remove dropped.txt?")
	p.lacks("dropped.txt")
	p.click("Up")
	p.sees("d/")

	// Recreate leaves what runs; removing does not.
	p.click("Recreate")
	p.confirm("Make a new container?")
	p.sees("commands go on in 1 old ones")
	p.click("Remove sandbox")
	p.confirm("Remove the sandbox?")
	p.sees("There are no sandboxes.")
}

// Pruning asks, and leaves what is in use.
func TestPruneSandboxes(t *testing.T) {
	g := common.get(t)
	p := g.browser()
	p.owner("sandboxes")
	p.sees("boxed")
	p.click("Prune")
	p.confirm("Nothing that runs ends.")
	p.sees("There was nothing to remove.")
	p.sees("boxed")
	p = g.browser()
	p.signIn(g.key("viewer"), "sandboxes")
	p.sees("boxed")
	if p.offers("Prune") {
		t.Error("a viewer is offered to prune")
	}
}

// What the set-up command wrote is there, and how full the pool is.
func TestSandboxSetupAndPool(t *testing.T) {
	g := common.get(t)
	g.configure(`{
		sandbox: {pool: {size: 1}},
		tools: {exec: {host: "gateway", security: "full", ask: "off"}},
		agents: {list: [{id: "made", sandbox: {setupCommand: "echo prepared it"}, tools: {exec: {host: "sandbox"}}}]},
	}`)
	t.Cleanup(func() {
		if err := g.c.RemoveSandbox(context.Background(), "made"); err != nil {
			t.Error(err)
		}
	})
	g.session("made", `{"command":"sleep 1000"}`)
	p := g.browser()
	p.owner("sandboxes")
	p.sees("Pool for agents:")
	p.click("made")
	p.wait("document.querySelector('details summary')?.innerText.includes('Set-up')")
	js[bool](p, "document.querySelector('details summary').click() || true")
	p.sees("prepared it")
}

func TestSandboxCharts(t *testing.T) {
	g := common.get(t)
	p := g.browser()
	p.owner("sandboxes/boxed")
	p.wait("document.querySelectorAll('.meter').length === 3")
	p.charted("Memory, last hour")
	p.charted("Processors, last hour")
}

// Where ports have host names, a page opens at an origin of its own, with its scripts, and
// without the token in its address.
func TestPortOfItsOwn(t *testing.T) {
	g := startWithSandbox(t)
	domain := fmt.Sprintf("localhost:%d", g.port)
	g.stop()
	text := strings.Replace(configuration, "{", `{ gateway: { domain: "http://`+domain+`" },`, 1)
	if err := os.WriteFile(filepath.Join(g.dir, "corral.json5"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g.run()
	g.session("boxed", `{"command":"mkdir www && echo '<h1>page</h1><script>document.title = location.host + document.cookie</script>' >www/index.html && httpd -f -p 8080 -h www"}`)
	p := g.browser()
	p.owner("sandboxes/boxed")
	p.fill("input[aria-label=Port]", "8080")
	p.sees("http://8080-boxed." + domain + "/")
	p.fine()
	p.goTo(js[string](p, "[...document.querySelectorAll('a.button')].find((a) => a.innerText === 'Open').href"))
	p.wait("document.title === '8080-boxed.%[1]s' && location.href === 'http://8080-boxed.%[1]s/'", domain)
	p.mu.Lock()
	p.wrong = slices.DeleteFunc(p.wrong, func(w string) bool { return strings.HasPrefix(w, "a request to http://8080-boxed.") })
	p.mu.Unlock()
}

func TestSandboxShellAndPorts(t *testing.T) {
	g := startWithSandbox(t)
	g.session("boxed", `{"command":"mkdir www && echo '<h1>page of the sandbox</h1><script>ran(1)</script>' >www/index.html && httpd -f -p 8080 -h www"}`)
	p := g.browser()
	p.owner("sandboxes/boxed")
	p.fill("input[aria-label=Port]", "8080")
	href := js[string](p, "[...document.querySelectorAll('a.button')].find((a) => a.innerText === 'Open').href")
	if href != g.url+"/v1/sandboxes/boxed/ports/8080/" {
		t.Errorf("the link is %s", href)
	}
	p.click("Shell")
	p.wait("location.pathname.startsWith('/console/terminals/')")
	p.has(".screen[data-state=on]")
	p.keys("cat www/index.html; hostname\r")
	p.screenHas("page of the sandbox")
	p.keys("exit\r")
	p.sees("The session has ended: exit 0.")
	p.fine()
	// The page opens by the cookie; the browser says that it runs no script of it.
	p.goTo(href)
	p.sees("page of the sandbox")
	p.mu.Lock()
	for _, w := range p.wrong {
		if strings.Contains(w, "RAN") {
			t.Error(w)
		}
	}
	p.wrong = nil
	p.mu.Unlock()
}
