package daemon

import (
	"context"
	"fmt"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/sandbox"
)

// quotas keep the sandboxes of a key's agents to what the key allows.
type quotas struct {
	mu     sync.Mutex
	coming map[string]wanted // by the sandbox: a container that is being made, and is not on disk yet
}

type wanted struct {
	owner string
	sandbox.Limits
}

// admit is sandbox.Config.Admit of one sandbox. Its own containers do not count: the new
// one is in their place.
func (q *quotas) admit(stateDir, name, owner string) func(context.Context, sandbox.Limits) (func(), error) {
	return func(ctx context.Context, want sandbox.Limits) (func(), error) {
		g := access.From(ctx)
		q.mu.Lock()
		defer q.mu.Unlock()
		if max := g.Quota; max.MaxSandboxes > 0 || max.MaxMemory > 0 || max.MaxCPUs > 0 {
			list, err := sandbox.Sandboxes(stateDir)
			if err != nil {
				return nil, err
			}
			if err := q.within(g, list, name, want); err != nil {
				return nil, err
			}
		}
		if q.coming == nil {
			q.coming = map[string]wanted{}
		}
		q.coming[name] = wanted{owner, want} // whichever key it is for: the next one has to know
		return func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			delete(q.coming, name)
		}, nil
	}
}

// within says why a key's agents may not have a container more. mu is held.
func (q *quotas) within(g *access.Grant, list []sandbox.Sandbox, name string, want sandbox.Limits) error {
	n, used := 1, want
	count := func(l sandbox.Limits) {
		used.Memory += l.Memory
		used.CPUs += l.CPUs
	}
	for _, s := range list {
		if _, coming := q.coming[s.Name]; coming || s.Name == name || len(s.Boxes) == 0 || !g.Sees(s.Owner) {
			continue
		}
		n++
		for _, b := range s.Boxes {
			count(b.Limits)
		}
	}
	for other, w := range q.coming {
		if other != name && g.Sees(w.owner) {
			n++
			count(w.Limits)
		}
	}
	refuse := func(what, may string) error {
		return corral.Errorf(api.ErrTooMany, "remove a sandbox that is not needed (corral sandbox rm), or ask for a larger quota",
			"with one more, the sandboxes of the key %q would have %s, and may have %s", g.Name, what, may)
	}
	switch max := g.Quota; {
	case max.MaxSandboxes > 0 && n > max.MaxSandboxes:
		return refuse(fmt.Sprintf("%d containers", n), fmt.Sprint(max.MaxSandboxes))
	case max.MaxMemory > 0 && want.Memory <= 0:
		return corral.Errorf(corral.ErrDenied, "set sandbox.memory", "the key %q limits the memory of sandboxes, and this one has no limit", g.Name)
	case max.MaxMemory > 0 && used.Memory > max.MaxMemory:
		return refuse(fmt.Sprintf("%d bytes of memory", used.Memory), fmt.Sprint(max.MaxMemory))
	case max.MaxCPUs > 0 && want.CPUs <= 0:
		return corral.Errorf(corral.ErrDenied, "set sandbox.cpus", "the key %q limits the processors of sandboxes, and this one has no limit", g.Name)
	case max.MaxCPUs > 0 && used.CPUs > max.MaxCPUs+1e-9:
		return refuse(fmt.Sprintf("%g processors", used.CPUs), fmt.Sprint(max.MaxCPUs))
	}
	return nil
}
