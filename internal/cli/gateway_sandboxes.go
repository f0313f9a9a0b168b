package cli

import (
	"context"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox"
)

// keeper is what the API does with the sandboxes of a gateway.
func (s *service) keeper() *sandboxKeeper {
	return &sandboxKeeper{
		dir: s.dir,
		engine: func(ctx context.Context) (engine, error) {
			return s.app.backends.engine(ctx, s.hosts.engineOf(""))
		},
		optional: func() bool { return s.mode() == modeOff },
		using:    s.hosts.using,
	}
}

// using calls do with a sandbox as it is in use here. What a gateway did not make
// is not opened: it does not know what that is like.
func (h *hosts) using(_ context.Context, s sandbox.Sandbox, need bool, do func(executor) error) error {
	h.mu.Lock()
	l := h.boxes[s.Name]
	h.mu.Unlock()
	if l == nil && need && s.Key != "" {
		l = h.box(s.Name, s.Owner, s.Key)
	}
	switch {
	case l == nil && need:
		return corral.Errorf(corral.ErrInvalid, "corral sandbox recreate --local "+s.Name+", with the flags that its commands are given", "the sandbox %s was not made by a gateway", s.Name)
	case l == nil:
		return do(nil)
	case need:
		ex, err := l.get()
		if err != nil {
			return err
		}
		return do(ex)
	}
	l.mu.Lock()
	ex := l.ex
	l.mu.Unlock()
	return do(ex)
}
