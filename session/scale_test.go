package session

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// many is a Manager in which n sessions run, and how much memory each takes, in bytes.
// Half of them are another agent's.
func many(b *testing.B, n int) (m *Manager, each float64) {
	x := &fakeexec.Executor{
		Info:     corral.Info{Host: corral.HostGateway, Dir: "/w"},
		Programs: map[string]fakeexec.Program{"sleep": fakeexec.Sleep, "true": fakeexec.Print("", "", 0)},
	}
	m, err := Open(b.Context(), Config{
		Dir: b.TempDir(), MaxRunning: 1 << 20,
		Executor: func(context.Context, string) (corral.Executor, error) { return x, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := m.Close(); err != nil {
			b.Error(err)
		}
		if err := x.Close(); err != nil {
			b.Error(err)
		}
	})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		begin(b, m.Agent([]string{"main", "other"}[i%2]), "sleep")
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := float64(after.HeapInuse + after.StackInuse - min(before.HeapInuse+before.StackInuse, after.HeapInuse+after.StackInuse))
	return m, used / float64(max(n, 1))
}

func begin(b *testing.B, a Agent, command string) *Session {
	s, err := a.Begin(b.Context(), Options{Command: corral.Command{Shell: command}, Background: true})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

var crowds = []int{100, 1_000, 10_000}

// What a session costs from its begin to its end, beside others that run.
func BenchmarkScaleSession(b *testing.B) {
	for _, n := range crowds {
		b.Run(fmt.Sprintf("running=%d", n), func(b *testing.B) {
			m, each := many(b, n)
			for b.Loop() {
				s := begin(b, m.Agent("main"), "true")
				if _, err := s.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
				if err := s.Remove(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(each, "B/session")
		})
	}
}

// What it costs to list an agent's sessions.
func BenchmarkScaleList(b *testing.B) {
	for _, n := range crowds {
		b.Run(fmt.Sprintf("running=%d", n), func(b *testing.B) {
			m, _ := many(b, n)
			for b.Loop() {
				if got := len(m.Agent("main").List(b.Context())); got != n/2 {
					b.Fatalf("%d sessions", got)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/session")
		})
	}
}

// What an event costs from its announcement until all who follow have it.
func BenchmarkScaleEvents(b *testing.B) {
	for _, followers := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("followers=%d", followers), func(b *testing.B) {
			m, _ := many(b, 0)
			const burst = 1000
			ctx, cancel := context.WithCancel(b.Context())
			var following sync.WaitGroup
			var mu sync.Mutex
			var all sync.WaitGroup
			for range followers {
				following.Go(func() {
					for after := int64(0); ; {
						got, err := m.Events(ctx, "", after)
						if err != nil {
							return
						}
						after = got.Next
						mu.Lock()
						for range got.Events {
							all.Done()
						}
						mu.Unlock()
					}
				})
			}
			for b.Loop() {
				all.Add(burst * followers)
				for i := range burst {
					e := Event{Type: "bench", Time: time.Now(), Agent: "main", Approval: fmt.Sprint(b.N, i), Text: "an event"}
					if err := m.events.add(e, func(*Event) error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
				all.Wait()
			}
			per := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / burst
			b.ReportMetric(per, "ns/event")
			b.ReportMetric(1e9/per, "events/s")
			cancel()
			following.Wait()
		})
	}
}
