package daemon

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engine"
)

// Sandboxes lists, describes, removes and recreates the sandboxes of a state directory,
// with or without a gateway. It is a gateway.Sandboxes.
type Sandboxes struct {
	dir    string
	engine func(context.Context) (Engine, error)
	// Optional: there need not be an engine, and nothing is listed without one.
	Optional func() bool
	// using calls do with a sandbox that is opened, or open already. Nil in
	// place of it: this program has not opened it, and has no need to.
	using func(ctx context.Context, s sandbox.Sandbox, need bool, do func(Executor) error) error
}

var _ gateway.Sandboxes = (*Sandboxes)(nil)

// A recreator is a sandbox that can be given a new container.
type recreator interface {
	Recreate(context.Context) (container string, left []string, err error)
}

// A remover is a sandbox that is open, and can be removed.
type remover interface{ Remove(context.Context) error }

func (k *Sandboxes) withEngine(ctx context.Context, do func(Engine) error) error {
	eng, err := k.engine(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(eng), eng.Close())
}

// rows are the containers that the engine has.
func (k *Sandboxes) rows(ctx context.Context) (rows []SandboxRow, err error) {
	err = k.withEngine(ctx, func(eng Engine) error {
		rows, err = eng.Sandboxes(ctx, k.dir)
		return err
	})
	if errors.Is(err, corral.ErrUnavailable) && k.Optional() {
		return nil, nil
	}
	return rows, err
}

func (k *Sandboxes) List(ctx context.Context) ([]api.Sandbox, error) {
	rows, err := k.rows(ctx)
	if err != nil {
		return nil, err
	}
	known, err := sandbox.Sandboxes(k.dir)
	if err != nil {
		return nil, err
	}
	list := []api.Sandbox{}
	for _, s := range known {
		d, err := k.describe(s, rows)
		if err != nil {
			return nil, err
		}
		if !s.Gone() || d.Commands > 0 { // else there are only records
			list = append(list, d)
		}
	}
	// Of containers that earlier versions made nothing is noted.
	for _, r := range rows {
		if !slices.ContainsFunc(known, func(s sandbox.Sandbox) bool { return s.Name == r.Name }) {
			list = append(list, api.Sandbox{
				Name: r.Name, State: stateOf(r.Running), Image: r.Image, Driver: r.Driver,
				Containers: []api.SandboxContainer{{Name: r.Container, ID: r.ID, Image: r.Image, Driver: r.Driver, Running: r.Running}},
			})
		}
	}
	slices.SortStableFunc(list, func(a, b api.Sandbox) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (k *Sandboxes) Get(ctx context.Context, name string) (api.Sandbox, error) {
	s, err := sandbox.Find(k.dir, name)
	if err != nil {
		return api.Sandbox{}, err
	}
	rows, err := k.rows(ctx)
	if err != nil {
		return api.Sandbox{}, err
	}
	return k.describe(s, rows)
}

func stateOf(running bool) string {
	if running {
		return api.SandboxRunning
	}
	return api.SandboxEnded
}

// scopeOf reads the key of a scope, see ScopeKey.
func scopeOf(owner, key string) (scope, conversation string) {
	own := ScopeKey(config.ScopeAgent, owner, "")
	switch key {
	case "":
		return "", ""
	case ScopeKey(config.ScopeShared, "", ""):
		return string(config.ScopeShared), ""
	case own:
		return string(config.ScopeAgent), ""
	}
	return string(config.ScopeSession), strings.TrimPrefix(key, own+":")
}

// describe is a sandbox as it is listed, with the containers that the engine
// has.
func (k *Sandboxes) describe(s sandbox.Sandbox, rows []SandboxRow) (api.Sandbox, error) {
	commands, err := sandbox.Running(k.dir, s.Name)
	if err != nil {
		return api.Sandbox{}, err
	}
	d := api.Sandbox{
		Name: s.Name, Agent: s.Owner, State: api.SandboxNone, Commands: commands, Created: s.Created, Used: s.Used,
		Workspace: s.Workspace, Containers: []api.SandboxContainer{},
	}
	d.Scope, d.Session = scopeOf(s.Owner, s.Key)
	for _, b := range s.Boxes {
		c, paused := api.SandboxContainer{Name: b.Container, Image: b.Image, Driver: string(b.Driver), Created: b.Created}, false
		if i := slices.IndexFunc(rows, func(r SandboxRow) bool { return r.Of(b) }); i >= 0 {
			c.ID, c.Running, paused = rows[i].ID, rows[i].Running, rows[i].Paused
		}
		d.Containers = append(d.Containers, c)
		if d.State = stateOf(c.Running); paused {
			d.State = api.SandboxPaused
		}
		d.Engine, d.Image, d.Runtime, d.Driver, d.User = b.Engine, b.Image, b.Runtime, string(b.Driver), b.User
		d.Root = b.Root
		d.Network, d.ConfigHash, d.Pooled, d.WorkspaceAccess = b.Network, b.Hash, b.Pooled, string(b.Access)
		if b.Access != "" { // else an earlier version made it
			l := api.SandboxLimits(b.Limits)
			d.Limits = &l
		}
		if b.Directory != "" {
			d.Workspace = b.Directory
		}
	}
	return d, nil
}

func (k *Sandboxes) Remove(ctx context.Context, name string) error {
	if _, err := sandbox.Find(k.dir, name); err != nil {
		return err
	}
	err := either(ctx, k, name, remover.Remove, func(e Engine, ctx context.Context, dir, name string) error {
		return e.RemoveSandbox(ctx, dir, name, false)
	})
	if err == nil && OfE2B(k.dir, name) {
		err = os.Remove(e2bFile(k.dir, name))
	}
	return err
}

// A pauser is a sandbox that is open, and can be paused.
type pauser interface {
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

// Pause implements gateway.Sandboxes.
func (k *Sandboxes) Pause(ctx context.Context, name string) error {
	return either(ctx, k, name, pauser.Pause, Engine.Pause)
}

// Resume implements gateway.Sandboxes.
func (k *Sandboxes) Resume(ctx context.Context, name string) error {
	return either(ctx, k, name, pauser.Resume, Engine.Resume)
}

// either does something with a sandbox that is open, which has a connection to its engine;
// with one that is not, the engine does it.
func either[T any](ctx context.Context, k *Sandboxes, name string, open func(T, context.Context) error, closed func(e Engine, ctx context.Context, dir, name string) error) error {
	return k.using(ctx, sandbox.Sandbox{Name: name}, false, func(ex Executor) error {
		if x, ok := ex.(T); ok {
			return open(x, ctx)
		}
		return k.withEngine(ctx, func(eng Engine) error { return closed(eng, ctx, k.dir, name) })
	})
}

func (k *Sandboxes) Recreate(ctx context.Context, name string) (api.Recreated, error) {
	got := api.Recreated{Name: name, Left: []string{}}
	s, err := sandbox.Find(k.dir, name)
	if err != nil {
		return got, err
	}
	err = k.using(ctx, s, true, func(ex Executor) error {
		r, ok := ex.(recreator)
		if !ok {
			return corral.Errorf(errors.ErrUnsupported, "", "the sandbox %s cannot be given a new container", name)
		}
		container, left, err := r.Recreate(ctx)
		got.Container, got.Left = container, append(got.Left, left...)
		return err
	})
	return got, err
}

func (k *Sandboxes) Stats(ctx context.Context, name string) (api.SandboxStats, error) {
	got := api.SandboxStats{Name: name, OOMKills: -1, At: time.Now().UTC()}
	s, err := sandbox.Find(k.dir, name)
	if err != nil || len(s.Boxes) == 0 {
		return got, err
	}
	last := s.Boxes[len(s.Boxes)-1]
	got.Container = last.Container
	var use engine.Stats
	err = k.withEngine(ctx, func(eng Engine) error {
		use, err = eng.Stats(ctx, last.Ref())
		return err
	})
	if errors.Is(err, engine.ErrNoContainer) {
		return got, nil
	}
	if err != nil || use.At.IsZero() { // it has ended
		return got, err
	}
	got.Running, got.At = true, use.At
	got.Memory, got.MemoryLimit, got.CPU, got.CPULimit = use.Memory, use.MemoryLimit, int64(use.CPU), use.CPULimit
	got.Pids, got.PidsLimit, got.OOMKills = use.Pids, use.PidsLimit, use.OOMKills
	return got, nil
}

func (k *Sandboxes) Log(ctx context.Context, name string, all bool) (api.SandboxLog, error) {
	got := api.SandboxLog{Name: name, Containers: []api.SandboxLife{}}
	lives, err := sandbox.Lives(k.dir, name)
	if err != nil {
		return got, err
	}
	if !all {
		lives = lives[max(0, len(lives)-1):]
	}
	k.askHowEnded(ctx, lives)
	for _, l := range lives {
		life := api.SandboxLife{
			Container: l.Container, Engine: l.Engine, Image: l.Image, Driver: string(l.Driver), Pooled: l.Pooled, Created: l.Created, Error: l.Error,
		}
		if l.Ended != nil {
			end := api.SandboxEnd(*l.Ended)
			life.Ended = &end
		}
		if s := l.Setup; s != nil {
			log, err := sandbox.SetupLog(k.dir, name, l.ID)
			if err != nil {
				return got, err
			}
			life.Setup = &api.SandboxSetup{
				Started: s.Started, Ended: s.Ended, Exit: s.Exit, Failed: s.Failed, Bytes: s.Output, Output: strings.ToValidUTF8(string(log), "\uFFFD"),
			}
		}
		got.Containers = append(got.Containers, life)
	}
	return got, nil
}

// askHowEnded asks the engine how containers ended that were not looked at since.
// What is noted can be read without an engine, too.
func (k *Sandboxes) askHowEnded(ctx context.Context, lives []sandbox.Life) {
	ctx, cancel := context.WithTimeout(ctx, doctor.AskLimit)
	defer cancel()
	eng, err := k.engine(ctx)
	if err != nil {
		return
	}
	defer eng.Close()
	for i, l := range lives {
		if l.Ended != nil {
			continue
		}
		if c, err := eng.Inspect(ctx, l.Ref()); err == nil && !c.Running {
			lives[i].Ended = engine.EndOf(c)
		}
	}
}

// keeper is what the API does with the sandboxes of a gateway.
func (s *Gateway) keeper() *Sandboxes {
	return &Sandboxes{
		dir: s.dir,
		engine: func(ctx context.Context) (Engine, error) {
			return s.opt.Backends.Engine(ctx, s.hosts.engineOf(""))
		},
		Optional: func() bool { return s.mode() == ModeOff },
		using:    s.hosts.using,
	}
}

// using calls do with a sandbox as it is in use here. What a gateway did not make
// is not opened: its settings are not known here.
func (h *hosts) using(_ context.Context, s sandbox.Sandbox, need bool, do func(Executor) error) error {
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
		if c := h.policies.agent(s.Owner); c.Err != nil {
			return unusable(c)
		}
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

// LocalSandboxes are those of a state directory, without a gateway. One that has to be
// opened is like what options says.
func LocalSandboxes(dir string, b Backends, choice func() string, options func(sandbox.Sandbox) (SandboxOptions, error)) *Sandboxes {
	return &Sandboxes{
		dir: dir, Optional: func() bool { return false },
		engine: func(ctx context.Context) (Engine, error) { return b.Engine(ctx, choice()) },
		using: func(_ context.Context, s sandbox.Sandbox, need bool, do func(Executor) error) error {
			if !need {
				return do(nil)
			}
			o, err := options(s)
			if err != nil {
				return err
			}
			o.StateDir, o.Name, o.Owner, o.Key = dir, s.Name, s.Owner, s.Key
			ex, err := b.Sandbox(o)
			if err != nil {
				return err
			}
			return errors.Join(do(ex), ex.Close())
		},
	}
}
