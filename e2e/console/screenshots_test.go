//go:build e2e

package console_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testnet"
)

// Every screen fits, wide and narrow, light and dark: nothing but what scrolls by itself
// is wider than the window. With CORRAL_SCREENSHOTS they are kept in that directory.
func TestScreens(t *testing.T) {
	enginetest.New(t)
	flags := []string{"--sandbox", "all", "--image", images.Busybox, "--workspace-access", "none", "--nodes", fmt.Sprintf("127.0.0.1:%d", testnet.FreePort(t))}
	var g *gateway
	if os.Getenv("CORRAL_SCREENSHOTS") == "" {
		g = start(t, flags...)
	} else {
		g = startAt(t, "/srv/corral", flags...)
	}
	g.write("deploy.sh", "echo deployed\n")
	long := strings.Repeat("a-very-long-name-", 7)
	g.session("boxed", `{"command":"printf 'hello\n' >README.md; mkdir -p src; echo x >src/main.c; sleep 1000","description":"prepares the workspace"}`)
	g.finish("main", "exit 3")
	coloured := g.session("main", `{"command":"for i in 1 2 3 4 5 6 7; do printf '\\033[3%dmcolour %d\\033[0m and plain text, \\033[1mbold\\033[0m\\n' $i $i; done; echo 'a warning' >&2; sleep 1000"}`)
	g.session("main", `{"command":`+quoted("echo "+long+" "+long)+`,"description":`+quoted(long)+`}`)
	g.session(long[:60], `{"command":"sleep 1000","stdin":true}`)
	terminal := g.session("main", `{"command":"vim -u NONE -N -n -c 'set number' -c 'syntax on' deploy.sh","tty":{"rows":24,"cols":80}}`)
	id := g.ask("sh ./deploy.sh --target production 'two words' && rm -rf ./build")
	g.ask("touch " + long + long)
	for _, k := range []client.NewKey{{Name: "acme", Role: "agent", Agents: []string{"acme-*"}, Hosts: []string{"sandbox"}, Quota: api.Quota{MaxSessions: 20}}, {Name: long, Role: "viewer"}} {
		if _, err := g.c.NewKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	p := g.browser()
	p.owner("nodes")
	p.has(".copyable pre")
	join := js[string](p, "document.querySelector('.copyable pre').innerText.trim()")
	g.node(join, "builder")
	p.sees("Asks to be a node")
	p.fill(".card label:nth-child(1) input", "builder")
	p.fill(".card label:nth-child(2) input", "pool=gpu zone=a")
	p.click("Approve")
	p.sees("online")
	g.node(join, "another")
	p.sees("Asks to be a node")

	screens := []struct{ name, path, wait string }{
		{"approvals", "approvals", "document.querySelector('.card')"},
		{"approval", "approvals/" + id, "document.querySelector('.answer')"},
		{"sessions", "sessions", "document.querySelector('.session')"},
		{"session", "sessions/" + coloured + "?agent=main", "document.querySelector('.line .fg-7')"},
		{"terminals", "terminals", "document.querySelector('tbody tr')"},
		{"terminal", "terminals/" + terminal + "?agent=main", "document.querySelector('.screen[data-state=on]')"},
		{"nodes", "nodes", "document.querySelector('.card') && document.querySelector('tbody select')"},
		{"node", "nodes/builder", "document.querySelector('.meter')"},
		{"policy", "policy", "document.querySelector('section + section')"},
		{"events", "events", "document.querySelector('.session')"},
		{"config", "config", "document.querySelector('tbody tr .help')?.innerText"},
		{"keys", "keys", "document.querySelector('tbody tr')"},
		{"sandboxes", "sandboxes", "document.querySelector('tbody tr')"},
		{"sandbox", "sandboxes/boxed", "document.querySelector('.meter') && document.body.innerText.includes('README.md')"},
		{"overview", "", "document.querySelector('.findings') && document.querySelectorAll('.plot canvas').length === 3"}, // by now there are values
	}
	for _, s := range screens {
		for i, look := range []struct {
			name, theme   string
			width, height int64
		}{{"wide", "light", 1280, 800}, {"dark", "dark", 1280, 800}, {"phone-dark", "dark", 390, 844}, {"phone", "light", 390, 844}} {
			p.do(chromedp.EmulateViewport(look.width, look.height), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
				_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
				return err
			}))
			if i == 0 || s.name == "terminal" { // a terminal has the colours of when it was opened
				p.open(s.path)
				p.has("main header.page")
				p.wait("%s", s.wait)
				if s.name == "policy" {
					p.fill("input[aria-label=Command]", "git push --force origin main | tee log")
					p.has(".report")
				}
			}
			if s.name == "terminal" {
				p.still()
			}
			if over := js[string](p, `(() => {
				const wide = document.documentElement.scrollWidth > innerWidth ? 'the page is ' + document.documentElement.scrollWidth + ' wide; ' : '';
				const out = [...document.querySelectorAll('main *')].filter((e) => e.getClientRects().length && !e.closest('.scroll, .rows, pre, .screen, .hide, .plot, .tabs') && e.getBoundingClientRect().right > innerWidth + 1);
				return wide + out.slice(0, 3).map((e) => e.outerHTML.slice(0, 150)).join('\n');
			})()`); over != "" {
				t.Errorf("%s at %s: %s", s.name, look.name, over)
			}
			p.picture(s.name + "-" + look.name)
			switch { // what axe looks at is the same on a narrow page, and all but colours in the dark
			case os.Getenv("CORRAL_SCREENSHOTS") != "" || look.width < 1280:
			case look.theme == "dark":
				p.accessible(s.name+" in the dark", "color-contrast")
			default:
				p.accessible(s.name)
			}
		}
	}
}

// startAt starts a gateway in a directory whose path says nothing of this machine.
func startAt(t *testing.T, dir string, flags ...string) *gateway {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatalf("pictures are made in a directory of this name, which must not be there yet: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	g := launch(t, dir, flags...)
	t.Cleanup(func() {
		running, err := g.c.Sessions(context.Background(), true)
		for _, s := range running {
			g.post(s.Agent, "/v1/sessions/"+s.ID+"/kill", "{}") // one may have ended
		}
		list, serr := g.c.Sandboxes(context.Background())
		err = errors.Join(err, serr)
		for _, b := range list {
			err = errors.Join(err, g.c.RemoveSandbox(context.Background(), b.Name))
		}
		if err != nil {
			t.Error(err)
		}
		g.stop()
	})
	return g
}

func TestEmptyScreens(t *testing.T) {
	g := start(t)
	p := g.browser()
	p.owner("")
	for _, path := range []string{"", "approvals", "sessions", "terminals", "sandboxes", "nodes", "keys"} {
		p.visit(path)
		p.has(".empty:not([role=status])")
		p.picture("empty-" + path)
		p.accessible("empty " + path)
	}
	p.click("Sign out")
	p.has(".login form")
	p.picture("login")
	p.accessible("login")
	js[bool](p, "document.querySelector('.login').append(document.createElement('input')) || true")
	if len(p.violations()) != 1 {
		t.Error("axe finds nothing wrong with a field that has no name")
	}
}

// axe looks for what people who see, hear or move less cannot use. The policy of the pages
// lets no page load it: the browser is told to evaluate it.
var axe = sync.OnceValues(func() (string, error) {
	if _, err := os.Stat("node_modules/axe-core/axe.min.js"); err != nil {
		if out, err := exec.Command("npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts").CombinedOutput(); err != nil {
			return "", fmt.Errorf("cannot install axe-core: %w: %s", err, out)
		}
	}
	data, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	return string(data), err
})

// accessible checks a page with axe, by all rules or by some.
func (p *tab) accessible(what string, rules ...string) {
	p.t.Helper()
	for _, f := range p.violations(rules...) {
		p.t.Errorf("%s: %s", what, f)
	}
}

func (p *tab) violations(rules ...string) []string {
	p.t.Helper()
	only := ""
	if len(rules) > 0 {
		only = ", runOnly: " + quoted(strings.Join(rules, " ")) + ".split(' ')"
	}
	source, err := axe()
	if err != nil {
		p.t.Fatal(err)
	}
	if !js[bool](p, "!!window.axe") {
		p.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](source+"; true"))
			return err
		}))
	}
	// What xterm draws is a picture of a terminal; its own mode for screen readers is another.
	return js[[]string](p, `axe.run({exclude: ['.xterm']}, {resultTypes: ['violations']%s}).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + n.failureSummary).join(' | ')))`, only)
}

// picture keeps a picture of the page, if a directory is given for them.
func (p *tab) picture(name string) {
	p.t.Helper()
	dir := os.Getenv("CORRAL_SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(dir, name+".png")
	p.wait("document.getAnimations().length === 0")
	js[float64](p, "new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")
	p.shot(file)
	if err := shrink(file); err != nil {
		p.t.Error(err)
	}
}

// shrink gives a picture a palette: its most frequent colours. A page has few.
func shrink(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	from, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return err
	}
	b := from.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	count := map[color.RGBA]int{}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	// Of colours that are nearly the same, the most frequent stands for all.
	all, best := map[color.RGBA]int{}, map[color.RGBA]color.RGBA{}
	for c, n := range count {
		near := color.RGBA{c.R &^ 7, c.G &^ 7, c.B &^ 7, 255}
		all[near] += n
		if old, ok := best[near]; !ok || n > count[old] || n == count[old] && c.R < old.R {
			best[near] = c
		}
	}
	colors := slices.SortedFunc(maps.Keys(all), func(a, b color.RGBA) int {
		return cmp.Or(all[b]-all[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	var palette color.Palette
	for _, c := range colors[:min(len(colors), 256)] {
		palette = append(palette, best[c])
	}
	to, nearest := image.NewPaletted(b, palette), map[color.RGBA]uint8{}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := at(x, y)
			i, ok := nearest[c]
			if !ok {
				i = uint8(palette.Index(c))
				nearest[c] = i
			}
			to.SetColorIndex(x, y, i)
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}
