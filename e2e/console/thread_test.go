//go:build e2e

package console_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

// A gap is the time between two marks, in ms.
type gap struct {
	took     float64
	computed float64 // the page's thread: beside other programs it also waits for a processor
}

// gaps does something, while the page calls performance.mark('tick') whenever it could
// answer. It returns the longest gap between two of these calls, and the gap in which the
// page's thread computed longest. Both are from the browser's own trace.
func (p *tab) gaps(do func()) (took, computed gap) {
	p.t.Helper()
	type event struct {
		Name    string
		Ts, Tts float64 // µs; Tts are those for which the thread computed
	}
	var mu sync.Mutex
	var ticks []event
	ended := make(chan bool, 1)
	if err := chromedp.Listen(p.ctx, func(ev any) {
		switch ev := ev.(type) {
		case *tracing.EventDataCollected:
			mu.Lock()
			defer mu.Unlock()
			for _, v := range ev.Value {
				var e event
				if json.Unmarshal(v, &e) == nil && e.Name == "tick" {
					ticks = append(ticks, e)
				}
			}
		case *tracing.EventTracingComplete:
			ended <- ev.DataLossOccurred
		}
	}); err != nil {
		p.t.Fatal(err)
	}
	p.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, tracing.Start, tracing.StartParams{TraceConfig: &tracing.TraceConfig{IncludedCategories: []string{"blink.user_timing"}, ExcludedCategories: []string{"*"}}})
		return err
	}))
	do()
	p.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, tracing.End, cdp.Empty{})
		return err
	}))
	if <-ended {
		p.t.Fatal("the browser lost a part of its trace")
	}
	mu.Lock()
	defer mu.Unlock()
	slices.SortFunc(ticks, func(a, b event) int { return int(a.Ts - b.Ts) })
	if len(ticks) < 20 || ticks[len(ticks)-1].Tts <= ticks[0].Tts {
		p.t.Fatalf("there are %d ticks: %v", len(ticks), ticks[:min(len(ticks), 20)])
	}
	for i := range ticks[1:] {
		g := gap{(ticks[i+1].Ts - ticks[i].Ts) / 1000, (ticks[i+1].Tts - ticks[i].Tts) / 1000}
		if g.took > took.took {
			took = g
		}
		if g.computed > computed.computed {
			computed = g
		}
	}
	return took, computed
}
