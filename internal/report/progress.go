package report

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/terminal"
	"github.com/corral-exec/corral/internal/words"
)

// A Progress shows how far the getting of an image is: as bars on a terminal, and
// elsewhere as a line for each phase, since a log needs no more. It shows nothing before
// there is something to show.
type Progress struct {
	W     io.Writer
	Warn  func(text string)
	Quiet bool // there are warnings alone

	bars *mpb.Progress // nil: lines

	phase images.Phase
	bar   map[string]*mpb.Bar // by item
	said  atomic.Value        // text, which another goroutine draws
}

// Show implements images.Progress.
func (p *Progress) Show(e images.Event) {
	if e.Warning {
		p.Finish()
		p.Warn(words.Sentence(e.Message))
		return
	}
	if p.Quiet {
		return
	}
	if _, ok := terminal.Shows(p.W); ok {
		p.draw(e)
		return
	}
	if e.Phase != p.phase && e.Message != "" {
		p.phase = e.Phase
		fmt.Fprintf(p.W, "image %s: %s\n", e.Image, words.OneLine(e.Message))
	}
}

// Finish takes the bars away. What comes after begins anew.
func (p *Progress) Finish() {
	if p.bars == nil {
		return
	}
	for _, b := range p.bar {
		b.Abort(true)
	}
	p.bars.Wait()
	p.bars, p.bar = nil, nil
}

// draw draws a line with the latest message, and a bar for each item whose size is
// known.
func (p *Progress) draw(e images.Event) {
	if p.bars == nil {
		p.said.Store("")
		p.bars = mpb.New(mpb.WithOutput(p.W), mpb.WithWidth(60), mpb.WithAutoRefresh())
		p.bar = map[string]*mpb.Bar{
			"": p.bars.New(0, mpb.SpinnerStyle().PositionLeft(), mpb.BarWidth(1), mpb.BarPriority(-1),
				mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.said.Load().(string) }))),
		}
	}
	if e.Message != "" {
		p.said.Store(words.Short(fmt.Sprintf("%s: %s", e.Image, words.OneLine(e.Message)), cmdline.Width(p.W)-4))
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
		bar = p.bars.AddBar(e.Total, mpb.BarRemoveOnComplete(), mpb.PrependDecorators(decor.Name(words.Short(name, 20), decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.CountersKibiByte("% .1f / % .1f")))
		p.bar[name] = bar
	}
	bar.SetTotal(e.Total, false)
	bar.SetCurrent(min(e.Current, e.Total))
}
