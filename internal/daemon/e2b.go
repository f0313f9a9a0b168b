package daemon

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/gateway/e2b"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/sandbox/private"
)

// e2bDir has what is kept of the sandboxes of E2B's clients, in the state directory.
const e2bDir = "e2b"

// e2bFile is what is kept of a sandbox of a client of E2B.
func e2bFile(dir, name string) string { return filepath.Join(dir, e2bDir, name+".json") }

// OfE2B reports whether a sandbox of a state directory is one of a client of E2B.
func OfE2B(dir, name string) bool {
	_, err := os.Stat(e2bFile(dir, name))
	return err == nil
}

// e2bBox is the sandbox of a client of E2B that a conversation of an agent is with.
func (h *hosts) e2bBox(agent, session string) (e2b.Box, error) {
	if h.e2b == nil {
		return e2b.Box{}, nil
	}
	return h.e2b.Of(agent, session)
}

// likeE2B makes settings those of a sandbox of a client of E2B, if they are of one: with
// its image and volumes, its files where such a client looks for them, and a life that its
// client bounds.
func (h *hosts) likeE2B(s *Settings) {
	if h.e2b == nil {
		return
	}
	b, ok := h.e2b.Get(s.Name)
	if !ok {
		return
	}
	asE2B(s, b.Image)
	for _, v := range b.Volumes {
		s.Mounts.Volumes = append(s.Mounts.Volumes, sandbox.Volume{Dir: h.e2b.VolumeDir(v.ID), Target: v.Path})
	}
}

// asE2B makes settings those of a sandbox with an image; empty: that which they have.
func asE2B(s *Settings, image string) {
	s.Image = cmp.Or(image, s.Image)
	s.Workspace.Home, s.Lifetime = e2b.Home, 0
	s.Workspace.Dir, s.Workspace.Access = "", ""
}

// wantedE2B is the pool for clients of E2B: for the template base, of the agent that is
// configured for all.
func (h *hosts) wantedE2B() poolSettings {
	as := h.policies.live.Config().Gateway.E2B
	c := h.policies.agent(cmp.Or(as.Agent.Value, config.DefaultE2BAgent))
	want := poolSettings{h.opt.SettingsOf(c), as.Pool.Value}
	image, _ := e2b.Image(as, e2b.DefaultTemplate)
	asE2B(&want.settings, image)
	want.settings.Engine = h.engineOf("")
	if want.settings.Mode == ModeOff || c.Err != nil || as.Listen.Value == "" {
		want.size = 0
	}
	return want
}

// e2bSandboxes are a gateway's sandboxes for clients of E2B.
type e2bSandboxes struct {
	*Sandboxes
	gateway *Gateway
}

var _ e2b.Sandboxes = e2bSandboxes{}

// Warm implements e2b.Sandboxes.
func (s e2bSandboxes) Warm(ctx context.Context, agent string) error {
	a := s.gateway.hosts.of(agent)
	if s.gateway.opt.SettingsOf(s.gateway.hosts.policies.agent(agent)).Mode == ModeOff {
		return corral.Errorf(corral.ErrDenied, "set sandbox.mode to all, for all agents or for this one", "the agent %s has no sandbox", agent)
	}
	if _, err := a.Route(ctx, corral.Command{Args: []string{"true"}, Host: corral.HostSandbox}); err != nil {
		return err
	}
	ex, err := a.box(ctx).get()
	if err != nil {
		return err
	}
	w, ok := ex.(interface{ Warm(context.Context) error })
	if !ok {
		return corral.Errorf(errors.ErrUnsupported, "", "a sandbox of agent %s cannot be made ready", agent)
	}
	return w.Warm(ctx)
}

// Get says what is noted: no engine is asked.
func (s e2bSandboxes) Get(_ context.Context, name string) (api.Sandbox, error) {
	found, err := sandbox.Find(s.dir, name)
	if err != nil {
		return api.Sandbox{}, err
	}
	return s.describe(found, nil)
}

func (s e2bSandboxes) executor(agent, name string) (Executor, error) {
	b, ok := s.gateway.hosts.e2b.Get(name)
	if !ok || b.Agent != agent {
		return nil, corral.Errorf(corral.ErrNotFound, "", "the agent %s has no sandbox %.80q", agent, name)
	}
	return s.gateway.hosts.box(name, agent, ScopeKey(config.ScopeSession, agent, b.Session())).get()
}

// EndAfter implements e2b.Sandboxes.
func (s e2bSandboxes) EndAfter(ctx context.Context, agent, name string, after time.Duration) error {
	ex, err := s.executor(agent, name)
	if err != nil {
		return err
	}
	ends, ok := ex.(interface {
		EndAfter(context.Context, time.Duration) error
	})
	if !ok {
		return corral.Errorf(errors.ErrUnsupported, "", "the sandbox %s does not end by itself", name)
	}
	return ends.EndAfter(ctx, after)
}

// Stop implements e2b.Sandboxes.
func (s e2bSandboxes) Stop(ctx context.Context, agent, name string) error {
	ex, err := s.executor(agent, name)
	if err != nil {
		return err
	}
	stops, ok := ex.(interface{ Stop(context.Context) error })
	if !ok {
		return corral.Errorf(errors.ErrUnsupported, "", "the sandbox %s cannot be stopped", name)
	}
	return stops.Stop(ctx)
}

func (s e2bSandboxes) Files(ctx context.Context, agent, name string) (files.FS, error) {
	ex, err := s.executor(agent, name)
	if err != nil {
		return nil, err
	}
	return FilesOf(ctx, ex, name)
}

func (s e2bSandboxes) DialPort(ctx context.Context, agent, name string, port int) (net.Conn, error) {
	ex, err := s.executor(agent, name)
	if err != nil {
		return nil, err
	}
	return dialIn(ctx, ex, "sandbox "+name, port)
}

// Volume implements e2b.Sandboxes.
func (s e2bSandboxes) Volume(ctx context.Context, agent, dir string) (files.FS, error) {
	settings := s.gateway.opt.SettingsOf(s.gateway.hosts.policies.agent(agent))
	settings.Name, settings.Owner = "volumes", agent // of no sandbox
	asE2B(&settings, "")
	return s.gateway.opt.Backends.Volume(ctx, s.gateway.hosts.sandboxOptions(settings), dir)
}

// RemoveVolume implements e2b.Sandboxes.
func (s e2bSandboxes) RemoveVolume(dir string) error { return private.Remove(dir) }

// Forget closes a sandbox that was removed: its name is not used again.
func (s e2bSandboxes) Forget(name string) error {
	s.gateway.hosts.mu.Lock()
	l := s.gateway.hosts.boxes[name]
	delete(s.gateway.hosts.boxes, name)
	s.gateway.hosts.mu.Unlock()
	if l != nil {
		if err := l.Close(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	return sandbox.Forget(ctx, s.dir, name) // if not now, it is when it is pruned
}

// watched are a gateway's sandboxes for its API: what is done with one of E2B's is done as
// its client would do it, so that both see the same.
type watched struct {
	*Sandboxes
	hosts *hosts
	e2b   *e2b.Server
}

var _ gateway.Sandboxes = watched{}

func (w watched) isE2B(name string) bool {
	_, ok := w.hosts.e2b.Get(name)
	return ok
}

func (w watched) Remove(ctx context.Context, name string) error {
	if w.isE2B(name) {
		return w.e2b.Kill(ctx, name)
	}
	return w.Sandboxes.Remove(ctx, name)
}

func (w watched) Pause(ctx context.Context, name string) error {
	if w.isE2B(name) {
		return w.e2b.Pause(ctx, name)
	}
	return w.Sandboxes.Pause(ctx, name)
}

func (w watched) Resume(ctx context.Context, name string) error {
	if w.isE2B(name) {
		return w.e2b.Resume(ctx, name)
	}
	return w.Sandboxes.Resume(ctx, name)
}
