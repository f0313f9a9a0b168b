//go:build e2e && linux

package daemon

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/sandbox/engines"
)

// Of many sandboxes that a key's agents ask for at once, as many get a container as the
// key may have; what is removed makes room.
func TestQuotaOfSandboxes(t *testing.T) {
	enginetest.New(t)
	eng, err := OpenEngine(t.Context(), engines.Docker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	state := ""
	names := []string{"q-1", "q-2", "q-3", "q-4", "q-5", "free"}
	t.Cleanup(func() { // after the gateway has ended
		for _, name := range names {
			if err := eng.RemoveSandbox(context.WithoutCancel(t.Context()), state, name, false); err != nil && !errors.Is(err, corral.ErrNotFound) {
				t.Error(err)
			}
		}
	})
	g := serveWith(t, `{ agents: { defaults: { sandbox: { mode: "all", image: "`+images.Busybox+`", network: "none", memory: "64m" } } } }`)
	state = g.s.dir
	ctx := access.WithGrant(t.Context(), &access.Grant{Name: "tenant", Role: access.Agent, Agents: []string{"q-*"}, Quota: api.Quota{MaxSandboxes: 2}})
	run := func(agent string) error {
		p, err := g.s.sessions.Agent(agent).Start(ctx, corral.Command{Shell: "true"})
		if err == nil {
			_, err = p.Wait(t.Context())
		}
		return err
	}
	var mu sync.Mutex
	var ran []string
	var all sync.WaitGroup
	for _, name := range names[:5] {
		all.Go(func() {
			switch err := run(name); {
			case err == nil:
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, name)
			case !errors.Is(err, api.ErrTooMany):
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
	if len(ran) != 2 {
		t.Fatalf("%d sandboxes have a container, want 2: %v", len(ran), ran)
	}
	if err := run(ran[0]); err != nil { // it has one
		t.Error(err)
	}
	if err := g.s.keeper().Remove(t.Context(), ran[0]); err != nil {
		t.Fatal(err)
	}
	for _, name := range names[:5] {
		if name != ran[0] && name != ran[1] {
			if err := run(name); err != nil {
				t.Errorf("after one was removed: %v", err)
			}
			break
		}
	}
	if err := run(ran[0]); !errors.Is(err, api.ErrTooMany) {
		t.Errorf("there are two again, and a third began: %v", err)
	}
	ctx = t.Context()
	if err := run("free"); err != nil {
		t.Errorf("without a quota: %v", err)
	}
}
