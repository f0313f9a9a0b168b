package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
)

// tenantsFor is how long TestTenants puts a load on a gateway; CORRAL_TENANTS=10m for long.
func tenantsFor(t *testing.T) time.Duration {
	d, err := time.ParseDuration(cmp.Or(os.Getenv("CORRAL_TENANTS"), "4s"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// withKey is a client that acts for an agent with a new key, over TCP.
func (g *serving) withKey(n api.NewKey, agent string) (*client.Client, api.MadeKey) {
	g.t.Helper()
	i := slices.IndexFunc(g.s.listeners, overTCP)
	if i < 0 {
		g.t.Fatal("the gateway does not listen on TCP")
	}
	made, err := g.client("main").NewKey(g.t.Context(), n)
	if err != nil {
		g.t.Fatal(err)
	}
	c, err := client.New(client.Options{URL: "http://" + g.s.listeners[i].Addr().String(), Token: made.Secret, Agent: agent, Retry: -1})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			g.t.Error(err)
		}
	})
	return c, made
}

// Two tenants with two keys each share a gateway. One asks for more than it may have,
// all the time: it gets what it may have to the unit, and neither sees or hears anything
// of the other.
func TestTenants(t *testing.T) {
	g := serveWith(t, `{
		sandbox: { mode: "off" }, gateway: { listen: "127.0.0.1:0" },
		agents: { defaults: { workspace: "WORK", tools: { exec: { host: "gateway", security: "full", ask: "off" } } } },
	}`)
	as := func(n api.NewKey, agent string) *client.Client {
		t.Helper()
		c, _ := g.withKey(n, agent)
		return c
	}
	const most, rate = 3, 150
	quiet := as(api.NewKey{Name: "quiet", Role: "agent", Agents: []string{"quiet-*"}}, "quiet-1")
	quietViewer := as(api.NewKey{Name: "quiet viewer", Role: "viewer", Agents: []string{"quiet-*"}}, "quiet-1")
	loud := as(api.NewKey{Name: "loud", Role: "agent", Agents: []string{"loud-*"}, Quota: api.Quota{MaxSessions: most, Rate: rate}}, "loud-1")
	loudViewer := as(api.NewKey{Name: "loud viewer", Role: "viewer", Agents: []string{"loud-*"}}, "loud-1")

	run := func(ctx context.Context, c *client.Client, text string) (string, error) {
		p, err := c.Start(ctx, corral.Command{Shell: text})
		if err != nil {
			return "", err
		}
		if _, err := p.Wait(ctx); err != nil {
			return "", err
		}
		chunk, err := p.Log().Read(ctx, 0, make([]byte, 1000))
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		return string(chunk.Data), nil
	}
	// median is how long commands of the quiet tenant take, one after the other.
	median := func(d time.Duration) time.Duration {
		t.Helper()
		var took []time.Duration
		for end := time.Now().Add(d); time.Now().Before(end); {
			begin := time.Now()
			if out, err := run(t.Context(), quiet, "echo of-quiet"); err != nil || out != "of-quiet\n" {
				t.Fatalf("%q, %v", out, err)
			}
			took = append(took, time.Since(begin))
			time.Sleep(5 * time.Millisecond)
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	d := tenantsFor(t)
	alone := median(d / 4)

	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	var all sync.WaitGroup
	var began, refused atomic.Int64
	for n := range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				out, err := run(ctx, loud, fmt.Sprintf("echo of-loud; sleep 0.0%d", n))
				switch {
				case ctx.Err() != nil:
				case errors.Is(err, api.ErrTooMany):
					refused.Add(1)
					time.Sleep(20 * time.Millisecond) // 50 times a second sooner than it is told to
				case err != nil || out != "of-loud\n":
					t.Errorf("%q, %v", out, err)
				default:
					began.Add(1)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	follow := func(c *client.Client, own string) {
		for ctx.Err() == nil {
			for e, err := range c.Events(ctx, client.EventOptions{AllAgents: true}) {
				if err != nil {
					break
				}
				if !strings.HasPrefix(e.Agent, own) {
					t.Errorf("a key for %s* heard of %+v", own, e)
				}
			}
		}
	}
	all.Go(func() { follow(quietViewer, "quiet-") })
	all.Go(func() { follow(loudViewer, "loud-") })
	all.Go(func() {
		for ctx.Err() == nil {
			mine, err := loudViewer.Sessions(ctx, true)
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			running := 0
			for _, st := range mine {
				if !strings.HasPrefix(st.Agent, "loud-") {
					t.Errorf("a key for loud-* sees %+v", st)
				}
				if !st.Ended() {
					running++
				}
			}
			if running > most {
				t.Errorf("%d sessions run, and %d may", running, most)
			}
			theirs, err := quiet.Sessions(ctx, true)
			if err != nil || len(theirs) == 0 {
				continue
			}
			if _, err := loudViewer.Session(ctx, theirs[0].ID); ctx.Err() == nil && !errors.Is(err, corral.ErrNotFound) {
				t.Errorf("session %s of another tenant: %v", theirs[0].ID, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	beside := median(d * 3 / 4)
	stop()
	all.Wait()
	t.Logf("in %v: a command of the quiet tenant takes %v alone and %v beside the other, %.2f times as long; of the loud one %d ran and %d were refused",
		d, alone, beside, float64(beside)/float64(alone), began.Load(), refused.Load())
	if began.Load() == 0 || refused.Load() == 0 {
		t.Error("nothing ran, or nothing was refused")
	}
}
