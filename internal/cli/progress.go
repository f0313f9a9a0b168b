package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/corral-exec/corral/images"
)

// A progress shows how it goes with getting an image: as bars on a terminal,
// and elsewhere as a line for each phase, since a log wants no more.
type progress struct {
	app  *app
	w    io.Writer
	bars *mpb.Progress // nil: lines

	phase images.Phase
	bar   map[string]*mpb.Bar // by item
	said  message
}

// progress makes one that shows nothing until there is something to show.
func (a *app) progress() *progress { return &progress{app: a, w: a.stderr} }

// show implements images.Progress.
func (p *progress) show(e images.Event) {
	if e.Warning {
		p.finish()
		p.app.warn(sentence(e.Message))
		return
	}
	if p.app.quiet {
		return
	}
	if f, ok := p.w.(*os.File); ok && isTerminal(f) {
		p.draw(e)
		return
	}
	if e.Phase != p.phase && e.Message != "" {
		p.phase = e.Phase
		fmt.Fprintf(p.w, "image %s: %s\n", e.Image, oneLine(e.Message))
	}
}

// finish takes the bars away. What comes after begins anew.
func (p *progress) finish() {
	if p.bars == nil {
		return
	}
	for _, b := range p.bar {
		b.Abort(true)
	}
	p.bars.Wait()
	p.bars, p.bar = nil, nil
}

// draw has a line that says what is going on, and a bar for each item of which
// the size is known.
func (p *progress) draw(e images.Event) {
	if p.bars == nil {
		p.bars = mpb.New(mpb.WithOutput(p.w), mpb.WithWidth(60), mpb.WithAutoRefresh())
		p.bar = map[string]*mpb.Bar{
			"": p.bars.New(0, mpb.SpinnerStyle().PositionLeft(), mpb.BarWidth(1), mpb.BarPriority(-1),
				mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.said.get() }))),
		}
	}
	if e.Message != "" {
		p.said.set(short(fmt.Sprintf("%s: %s", e.Image, oneLine(e.Message)), width(p.w)-4))
	}
	if e.Total <= 0 {
		return
	}
	name := string(e.Phase)
	if e.Item != "" {
		name = e.Item
	}
	bar := p.bar[name]
	if bar == nil {
		bar = p.bars.AddBar(e.Total, mpb.BarRemoveOnComplete(), mpb.PrependDecorators(decor.Name(short(name, 20), decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.CountersKibiByte("% .1f / % .1f")))
		p.bar[name] = bar
	}
	bar.SetTotal(e.Total, false)
	bar.SetCurrent(min(e.Current, e.Total))
}

// A message is what the drawing goroutine reads while it changes.
type message struct {
	mu   sync.Mutex
	text string
}

func (m *message) set(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text = text
}

func (m *message) get() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text
}

// short cuts text to n characters.
func short(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:max(0, n-1)]) + "…"
	}
	return text
}

// sentence makes one of a message.
func sentence(text string) string {
	r := []rune(text)
	if len(r) == 0 {
		return ""
	}
	if r[0] >= 'a' && r[0] <= 'z' {
		r[0] -= 'a' - 'A'
	}
	if last := r[len(r)-1]; last != '.' && last != '!' && last != '?' {
		r = append(r, '.')
	}
	return string(r)
}

// A progressLog shows progress in the log of a gateway: a line for each phase.
type progressLog struct {
	log *slog.Logger

	mu    sync.Mutex
	phase images.Phase
}

func (p *progressLog) show(e images.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.Warning:
		p.log.Warn(oneLine(sentence(e.Message)), "image", e.Image)
	case e.Phase != p.phase && e.Message != "":
		p.phase = e.Phase
		p.log.Info("getting an image: "+oneLine(e.Message), "image", e.Image)
	}
}

func (p *progressLog) finish() {}
