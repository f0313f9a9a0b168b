package daemon

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/engines"
	"github.com/corral-exec/corral/sandbox/files"
)

// sandboxed is a sandbox with the connection to its engine.
type sandboxed struct {
	*sandbox.Executor
	engine engines.Engine
	dir    string // to remove with it; empty: none
}

// A configurable executor goes by other settings from the next command on.
type configurable interface{ ConfigureSandbox(SandboxOptions) error }

func (s *sandboxed) ConfigureSandbox(o SandboxOptions) error {
	return s.Configure(configOf(s.engine, o))
}

// SandboxConfig is what a sandbox is like by its options, of no engine.
func SandboxConfig(o SandboxOptions) sandbox.Config { return configOf(nil, o) }

func configOf(eng engines.Engine, o SandboxOptions) sandbox.Config {
	return sandbox.Config{
		Name: o.Name, Owner: o.Owner, Key: o.Key, Image: o.Image, Runtime: o.Runtime, Driver: o.Driver,
		Workspace: o.Workspace, Resources: o.Resources, Isolation: o.Isolation, Mounts: o.Mounts,
		// The operator wrote these names, so none is left out because it looks like a credential.
		Environment:  sandbox.Environment{Variables: o.Env, Keep: slices.Collect(maps.Keys(o.Env)), Snapshot: o.Snapshot},
		SetupCommand: o.SetupCommand, Lifetime: o.Lifetime, Pool: o.Pool, Admit: o.Admit,
		EnsureImage: func(ctx context.Context, image string) error {
			store := images.Store{Engine: eng.Images()}
			_, err := store.Ensure(ctx, image, o.Progress.Show)
			o.Progress.Finish()
			return err
		},
	}
}

// openSandbox makes no container yet. One that is ephemeral has a state
// directory of its own: it goes with it.
func openSandbox(o SandboxOptions) (_ Executor, err error) {
	eng, err := engines.Open(context.Background(), o.Engine)
	if err != nil {
		return nil, err
	}
	s := &sandboxed{engine: eng}
	state := o.StateDir
	if o.Ephemeral {
		if s.dir, err = os.MkdirTemp("", "corral-once-"); err != nil {
			return nil, errors.Join(NoTempDir(err), eng.Close())
		}
		state = s.dir
	}
	cfg := configOf(s.engine, o)
	cfg.Engine, cfg.StateDir, cfg.Ephemeral, cfg.Log = eng, state, o.Ephemeral, o.Log
	s.Executor, err = sandbox.New(cfg)
	if err != nil {
		return nil, errors.Join(err, s.letGo())
	}
	return s, nil
}

func openVolume(ctx context.Context, o SandboxOptions, dir string) (files.FS, error) {
	eng, err := engines.Open(ctx, o.Engine)
	if err != nil {
		return nil, err
	}
	cfg := configOf(eng, o)
	cfg.Engine, cfg.StateDir, cfg.Log = eng, o.StateDir, o.Log
	f, err := cfg.Volume(ctx, dir)
	return f, errors.Join(err, eng.Close())
}

func (s *sandboxed) Close() error { return errors.Join(s.Executor.Close(), s.letGo()) }

func (s *sandboxed) letGo() error {
	err := s.engine.Close()
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// A WarmPool is a pool of containers for sandboxes by certain settings.
type WarmPool interface {
	Containers() *sandbox.Pool
	ConfigurePool(o SandboxOptions, size int) error
	io.Closer
}

type enginePool struct {
	*sandbox.Pool
	engine engines.Engine
}

func openPool(o SandboxOptions, size int) (WarmPool, error) {
	eng, err := engines.Open(context.Background(), o.Engine)
	if err != nil {
		return nil, err
	}
	cfg := configOf(eng, o)
	cfg.Engine, cfg.StateDir, cfg.Log = eng, o.StateDir, o.Log
	p, err := sandbox.NewPool(cfg, size)
	if err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	return enginePool{p, eng}, nil
}

func (p enginePool) Containers() *sandbox.Pool { return p.Pool }

func (p enginePool) ConfigurePool(o SandboxOptions, size int) error {
	return p.Configure(configOf(p.engine, o), size)
}

func (p enginePool) Close() error { return errors.Join(p.Pool.Close(), p.engine.Close()) }

// SandboxRow is a container as corral sandbox ls prints it.
type SandboxRow struct {
	Name      string `json:"name"`      // of the sandbox
	Container string `json:"container"` // its name at the engine
	ID        string `json:"id"`
	Image     string `json:"image"`
	Driver    string `json:"driver"`
	User      string `json:"user"` // UID:GID that its commands run as; empty: it is not known
	Running   bool   `json:"running"`
	Paused    bool   `json:"paused,omitempty"` // it is frozen
	Engine    string `json:"engine,omitempty"` // another engine than the one that is used, which has it
}

// Of reports whether the row is of a container, which may have been renamed.
func (r SandboxRow) Of(b sandbox.Box) bool { return r.ID == b.Ref() || r.Container == b.Container }

// State is what the container is at the moment, for people.
func (r SandboxRow) State() string {
	switch {
	case r.Engine != "":
		return "at " + r.Engine
	case r.Paused:
		return api.SandboxPaused
	case r.Container == "":
		return "no container"
	}
	return stateOf(r.Running)
}

// hostEngine is the engine of corral's other commands.
type hostEngine struct{ engines.Engine }

// OpenEngine opens an engine by its name, or the one that answers (auto).
func OpenEngine(ctx context.Context, choice string) (Engine, error) {
	eng, err := engines.Open(ctx, choice)
	if err != nil {
		return nil, err
	}
	return hostEngine{eng}, nil
}

func (e hostEngine) Facts(ctx context.Context) (doctor.EngineFacts, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return doctor.EngineFacts{Info: info}, err
	}
	slices.Sort(info.Runtimes)
	v, err := e.Versions(ctx)
	return doctor.EngineFacts{Info: info, API: v.API, Build: doctor.RuncBuild{Version: v.Runc, Revision: v.RuncRevision}}, err
}

func (e hostEngine) Check(ctx context.Context, s engine.Spec) ([]engine.Lack, error) {
	c, ok := e.Engine.(engine.Checker)
	if !ok {
		return nil, nil // only a container tells
	}
	return c.Check(ctx, s)
}

// Labels of a sandbox's container.
const (
	labelName   = "corral.name"
	labelDriver = "corral.driver"
)

func (e hostEngine) Sandboxes(ctx context.Context, stateDir string) ([]SandboxRow, error) {
	list, err := sandbox.List(ctx, e, stateDir)
	if err != nil {
		return nil, err
	}
	// The label says for whom a container was made. One that came from a pool
	// was made for no agent, and is in use all the same.
	known, err := sandbox.Sandboxes(stateDir)
	if err != nil {
		return nil, err
	}
	type noted struct {
		sandbox.Sandbox
		box sandbox.Box
	}
	boxes := map[string]noted{} // by what the engine finds them by
	for _, s := range known {
		for _, b := range s.Boxes {
			boxes[b.Ref()] = noted{s, b}
		}
	}
	rows := make([]SandboxRow, 0, len(list))
	for _, c := range list {
		n, ok := boxes[c.ID]
		if !ok { // of an earlier version
			n = boxes[c.Name]
		}
		delete(boxes, n.box.Ref())
		name := cmp.Or(n.Name, c.Labels[labelName])
		if name == "" {
			continue // it waits in a pool
		}
		rows = append(rows, SandboxRow{
			Name: name, Container: c.Name, ID: c.ID,
			Image: c.Image, Driver: c.Labels[labelDriver], User: n.box.User, Running: c.Running,
			Paused: c.Running && (n.Paused || c.Paused),
		})
	}
	var info engine.Info
	if len(boxes) > 0 {
		if info, err = e.Info(ctx); err != nil {
			return nil, err
		}
	}
	for _, n := range boxes {
		if b := n.box; !b.At(info) {
			rows = append(rows, SandboxRow{Name: n.Name, Container: b.Container, ID: b.ContainerID, Image: b.Image, Driver: string(b.Driver), User: b.User, Engine: b.EngineName()})
		}
	}
	for _, s := range known { // whose container is gone, or could not be made
		if !s.Gone() && !slices.ContainsFunc(rows, func(r SandboxRow) bool { return r.Name == s.Name }) {
			rows = append(rows, SandboxRow{Name: s.Name})
		}
	}
	slices.SortFunc(rows, func(a, b SandboxRow) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Container, b.Container))
	})
	return rows, nil
}

func (e hostEngine) Stats(ctx context.Context, container string) (engine.Stats, error) {
	s, ok := e.Engine.(engine.StatsEngine)
	if !ok {
		return engine.Stats{}, corral.Errorf(errors.ErrUnsupported, "ask the engine's own tools", "this engine does not tell what the container %s uses", container)
	}
	return s.Stats(ctx, container)
}

func (e hostEngine) RemoveSandbox(ctx context.Context, stateDir, name string, force bool) (err error) {
	s, err := sandbox.New(sandbox.Config{Engine: e, StateDir: stateDir, Name: name})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if force {
		return s.Abandon(ctx)
	}
	return s.Remove(ctx)
}

func (e hostEngine) Pause(ctx context.Context, stateDir, name string) error {
	return sandbox.Pause(ctx, e.Engine, stateDir, name)
}

func (e hostEngine) Resume(ctx context.Context, stateDir, name string) error {
	return sandbox.Resume(ctx, e.Engine, stateDir, name)
}

func (e hostEngine) Sweep(ctx context.Context, stateDir string) ([]string, error) {
	return sandbox.Sweep(ctx, e, stateDir)
}

func (e hostEngine) Prune(ctx context.Context, stateDir string, of func(sandbox.Sandbox) sandbox.PruneOptions) ([]string, error) {
	return sandbox.Prune(ctx, e, stateDir, of)
}
