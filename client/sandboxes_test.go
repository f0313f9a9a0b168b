package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway"
)

// oneSandbox is called box, and notes in which conversation it was asked for.
type oneSandbox struct {
	gateway.Sandboxes
	session string
	removed int
	paused  bool
}

func (o *oneSandbox) check(ctx context.Context, name string) error {
	o.session = config.CallerFrom(ctx).Session
	if name != "box/1" { // which is escaped on its way
		return corral.Errorf(corral.ErrNotFound, "corral sandbox ls", "there is no sandbox %s", name)
	}
	return nil
}

func (o *oneSandbox) List(ctx context.Context) ([]api.Sandbox, error) {
	return []api.Sandbox{{Name: "box/1", Commands: 2, Containers: []api.SandboxContainer{}}}, o.check(ctx, "box/1")
}

func (o *oneSandbox) Get(ctx context.Context, name string) (api.Sandbox, error) {
	return api.Sandbox{Name: name, State: api.SandboxRunning}, o.check(ctx, name)
}

func (o *oneSandbox) Remove(ctx context.Context, name string) error {
	o.removed++
	return o.check(ctx, name)
}

func (o *oneSandbox) Recreate(ctx context.Context, name string) (api.Recreated, error) {
	return api.Recreated{Name: name, Container: "new", Left: []string{"old"}}, o.check(ctx, name)
}

func (o *oneSandbox) Pause(ctx context.Context, name string) error {
	o.paused = true
	return o.check(ctx, name)
}

func (o *oneSandbox) Resume(ctx context.Context, name string) error {
	o.paused = false
	return o.check(ctx, name)
}

func (o *oneSandbox) Stats(ctx context.Context, name string) (api.SandboxStats, error) {
	return api.SandboxStats{}, errors.Join(o.check(ctx, name), corral.Errorf(errors.ErrUnsupported, "ask the engine", "it does not tell"))
}

func (o *oneSandbox) Log(ctx context.Context, name string, all bool) (api.SandboxLog, error) {
	l := api.SandboxLog{Name: name, Containers: []api.SandboxLife{{Container: "new"}}}
	if all {
		l.Containers = append(l.Containers, api.SandboxLife{Setup: &api.SandboxSetup{Output: "out"}})
	}
	return l, o.check(ctx, name)
}

func TestSandboxes(t *testing.T) {
	o := &oneSandbox{}
	g := newRig(t)
	g.away()
	g.sandboxes = o
	g.back()
	c := g.client(nil)
	if list, err := c.Sandboxes(t.Context()); err != nil || len(list) != 1 || list[0].Commands != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if s, err := c.Sandbox(t.Context(), "box/1"); err != nil || s.Name != "box/1" || s.State != "running" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := c.Sandbox(t.Context(), "other"); !errors.Is(err, corral.ErrNotFound) || corral.Hint(err) == "" {
		t.Errorf("%v", err)
	}
	if got, err := c.RecreateSandbox(t.Context(), "box/1"); err != nil || got.Container != "new" || len(got.Left) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.SandboxStats(t.Context(), "box/1"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	if l, err := c.SandboxLog(t.Context(), "box/1", false); err != nil || len(l.Containers) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := c.SandboxLog(t.Context(), "box/1", true); err != nil || len(l.Containers) != 2 || l.Containers[1].Setup.Output != "out" {
		t.Errorf("%+v, %v", l, err)
	}
	if err := c.PauseSandbox(t.Context(), "box/1"); err != nil || !o.paused {
		t.Errorf("%v, %v", o.paused, err)
	}
	if err := c.ResumeSandbox(t.Context(), "box/1"); err != nil || o.paused {
		t.Errorf("%v, %v", o.paused, err)
	}
	if err := c.RemoveSandbox(t.Context(), "box/1"); err != nil || o.removed != 1 {
		t.Errorf("%d, %v", o.removed, err)
	}
}

// The conversation goes with every call.
func TestSessionOfCalls(t *testing.T) {
	o := &oneSandbox{}
	g := newRig(t)
	g.away()
	g.sandboxes = o
	g.back()
	for key, want := range map[string]string{"": "", "telegram:123": "telegram:123", " ü ": "ü"} {
		c := g.client(func(opt *client.Options) { opt.Session = key })
		if _, err := c.Sandboxes(t.Context()); err != nil || o.session != want {
			t.Errorf("%q: %q, %v", key, o.session, err)
		}
	}
	for _, key := range []string{"a\r\nCorral-Agent: b", strings.Repeat("x", 10_000)} {
		if _, err := client.New(client.Options{Socket: g.socket(), Session: key}); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%.20q: %v", key, err)
		}
	}
}
