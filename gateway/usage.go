package gateway

import (
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/session"
)

// Bounds of what is kept of usage: an hour of each, and of so many sandboxes and nodes.
const (
	usageEvery = 15 * time.Second
	usageKept  = int(time.Hour / usageEvery)
	usageMost  = 500
)

// usage is the last hour of the gateway, its sandboxes and its nodes, in memory.
type usage struct {
	mu   sync.Mutex
	of   map[string]*series
	last counts               // of the gateway
	cpu  map[string]sinceThen // of sandboxes
}

// A series has the last usageKept measurements of one thing.
type series struct {
	at     []int64
	values map[string][]float64
}

// sinceThen is what a container had used at a time.
type sinceThen struct {
	container string
	at        time.Time
	cpu       int64
}

// counts are what only grows, at a time.
type counts struct {
	at                              time.Time
	begun, failed, requests, errors int64
	quick                           int64 // requests that wait for nothing
	took                            time.Duration
}

// add keeps a measurement.
func (u *usage) add(of string, at time.Time, values map[string]float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[string]*series{}
	}
	s := u.of[of]
	if s == nil {
		if len(u.of) >= usageMost {
			return
		}
		s = &series{values: map[string][]float64{}}
		u.of[of] = s
	}
	s.at = last(append(s.at, at.Unix()))
	for name, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			v = 0
		}
		s.values[name] = last(append(s.values[name], math.Round(v*1000)/1000))
	}
}

// last keeps the end of a list.
func last[T any](list []T) []T {
	if over := len(list) - usageKept; over > 0 {
		return slices.Delete(list, 0, over)
	}
	return list
}

// forget drops what was not measured for an hour.
func (u *usage) forget(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	old := now.Add(-time.Hour)
	maps.DeleteFunc(u.of, func(_ string, s *series) bool { return s.at[len(s.at)-1] < old.Unix() })
	maps.DeleteFunc(u.cpu, func(_ string, s sinceThen) bool { return s.at.Before(old) })
}

// get is a copy of what is kept of something.
func (u *usage) get(of string) api.Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	got := api.Usage{Of: of, Every: usageEvery.Seconds(), At: []int64{}, Series: map[string][]float64{}}
	if s := u.of[of]; s != nil {
		got.At = slices.Clone(s.at)
		for name, v := range s.values {
			got.Series[name] = slices.Clone(v)
		}
	}
	return got
}

// measureUsage measures until ctx ends.
func (s *Server) measureUsage(ctx context.Context) {
	s.counted(time.Now()) // the first values are since then
	tick := time.NewTicker(usageEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			round, cancel := context.WithTimeout(ctx, usageEvery)
			s.measureOnce(round, now)
			cancel()
		case <-ctx.Done():
			return
		}
	}
}

// counted is what was counted last, and what is now.
func (s *Server) counted(at time.Time) (before, now counts) {
	now = s.metrics.counts(s.cfg.Sessions)
	now.at = at
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	before, s.usage.last = s.usage.last, now
	return before, now
}

func (s *Server) measureOnce(ctx context.Context, now time.Time) {
	u := &s.usage
	u.forget(now)
	before, c := s.counted(now)
	if sec := now.Sub(before.at).Seconds(); !before.at.IsZero() && sec > 0 {
		latency := 0.0
		if n := c.quick - before.quick; n > 0 {
			latency = float64((c.took - before.took).Microseconds()) / 1000 / float64(n)
		}
		u.add(api.UsageOfGateway, now, map[string]float64{
			"running": float64(s.cfg.Sessions.Counts()[session.Running]), "begun": float64(c.begun-before.begun) / sec, "failed": float64(c.failed-before.failed) / sec,
			"requests": float64(c.requests-before.requests) / sec, "errors": float64(c.errors-before.errors) / sec, "latency": latency,
		})
	}
	if s.cfg.Nodes != nil {
		for _, n := range s.cfg.Nodes.List(ctx).Nodes {
			if l := n.Load; l != nil && n.State == api.NodeOnline {
				u.add(api.UsageOfNode+n.ID, now, map[string]float64{
					"load": l.Average, "memory": float64(l.MemoryUsed), "disk": float64(l.DiskUsed), "processes": float64(l.Processes),
				})
			}
		}
	}
	if s.cfg.Sandboxes == nil {
		return
	}
	boxes, err := s.cfg.Sandboxes.List(ctx)
	if err != nil { // the engine is away: others say so
		return
	}
	for _, b := range boxes {
		if b.State != api.SandboxRunning || ctx.Err() != nil {
			continue
		}
		st, err := s.cfg.Sandboxes.Stats(ctx, b.Name)
		if err != nil || !st.Running {
			continue
		}
		u.add(api.UsageOfSandbox+b.Name, now, map[string]float64{"cpu": u.processors(b.Name, st), "memory": float64(st.Memory), "pids": float64(st.Pids)})
	}
}

// processors is how many a sandbox used since it was measured last.
func (u *usage) processors(name string, st api.SandboxStats) float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cpu == nil {
		u.cpu = map[string]sinceThen{}
	}
	was := u.cpu[name]
	u.cpu[name] = sinceThen{st.Container, st.At, st.CPU}
	if d := st.At.Sub(was.at); was.container == st.Container && d > 0 {
		return max(0, float64(st.CPU-was.cpu)/float64(d))
	}
	return 0
}

// showUsage is the last hour of the gateway, or of what of= names.
func (s *Server) showUsage(w http.ResponseWriter, r *http.Request) error {
	of, g := r.URL.Query().Get("of"), access.From(r.Context())
	switch name, sandbox := strings.CutPrefix(of, api.UsageOfSandbox); {
	case sandbox && s.cfg.Sandboxes == nil && !g.All():
		return errNoSandboxes
	case sandbox:
		if err := s.seesSandbox(r.Context(), name); err != nil {
			return err
		}
	case strings.HasPrefix(of, api.UsageOfNode):
	case of != api.UsageOfGateway:
		return badQuery("of", of, "use gateway, sandbox:NAME or node:ID")
	case !g.All():
		return corral.Errorf(corral.ErrDenied, "ask for that of a sandbox", "the usage of the gateway tells of all agents, and the key %q is for some", g.Name)
	}
	return writeJSON(w, http.StatusOK, s.usage.get(of))
}
