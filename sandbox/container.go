package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/wardenbin"
	"github.com/corral-exec/corral/internal/wardenexec"
)

// Labels of our containers.
const (
	Label          = "corral"           // "sandbox"
	labelState     = "corral.state"     // the state directory
	labelName      = "corral.name"      // Config.Name
	labelConfig    = "corral.config"    // hash of the configuration
	labelPlace     = "corral.place"     // hash of what commands find there
	labelDriver    = "corral.driver"    // how it is spoken to
	labelEphemeral = "corral.ephemeral" // "1": goes with its owner
)

const (
	wardenPath = "/.corral/warden" // in the container
	socketDir  = "/.corral/run"
)

// containerName is like corral-default-1a2b3c4d.
func containerName(stateDir, name string) string {
	sum := sha256.Sum256([]byte(stateDir + "\x00" + name))
	return "corral-" + name + "-" + hex.EncodeToString(sum[:4])
}

// isolatedKernel reports whether the runtime has a kernel of its own, into
// which no socket of this machine reaches.
func (c *Config) isolatedKernel() bool {
	r := filepath.Base(c.Runtime)
	return strings.HasPrefix(r, "runsc") || strings.HasPrefix(r, "kata")
}

// errDriver: the container was made for another driver, and is in use.
var errDriver = errors.New("the sandbox is spoken to in another way")

// ensure returns the container, running and made as configured.
func (e *Executor) ensure(ctx context.Context, driver Driver, start bool) (Container, error) {
	for {
		c, err := e.cfg.Engine.Inspect(ctx, e.name)
		switch {
		case errors.Is(err, ErrNoContainer) && !start:
			return Container{}, wardenexec.ErrGone
		case errors.Is(err, ErrNoContainer):
			if c, err = e.create(ctx, driver); errors.Is(err, ErrNameTaken) {
				continue
			}
			return c, err
		case err != nil:
			return Container{}, err
		case c.Labels[labelState] != e.cfg.StateDir || c.Labels[labelName] != e.cfg.Name:
			return Container{}, corral.Errorf(corral.ErrUnavailable, "remove or rename it", "the container %s is not this sandbox", e.name)
		case !c.Running && !start:
			return Container{}, wardenexec.ErrGone
		case !c.Running:
			e.cfg.Log.Warn("the sandbox had ended; making a new one", "name", e.cfg.Name, "exit", c.Exit, "oom", c.OOM)
			if err := e.cfg.Engine.Remove(ctx, c.ID); err != nil {
				return Container{}, err
			}
			continue
		case !start:
			// Whatever it was made for is how what runs in it is found.
			if c.Labels[labelDriver] != string(driver) {
				return Container{}, errDriver
			}
			return c, nil
		}
		spec, err := e.spec(ctx, driver)
		if err != nil {
			return Container{}, err
		}
		if c.Labels[labelConfig] == spec.Labels[labelConfig] {
			return c, nil
		}
		if made := Driver(c.Labels[labelDriver]); made != driver && e.cfg.Driver == DriverAuto && made != DriverExec {
			other, err := e.spec(ctx, made)
			if err != nil {
				return Container{}, err
			}
			if c.Labels[labelConfig] == other.Labels[labelConfig] {
				return Container{}, errDriver
			}
		}
		busy, err := e.busy(ctx, c)
		if err != nil {
			return Container{}, err
		}
		switch same := c.Labels[labelPlace] == spec.Labels[labelPlace] && c.Labels[labelDriver] == string(driver); {
		case busy && same: // only the warden is another
			e.cfg.Log.Info("the sandbox is used with the warden it was made with, since commands run in it", "name", e.cfg.Name)
			return c, nil
		case busy:
			return Container{}, corral.Errorf(corral.ErrUnavailable, "wait for its commands, remove the sandbox, or use one of another name",
				"the sandbox %s is configured otherwise than it was made, and commands run in it", e.cfg.Name)
		}
		// The old one stays until the engine has no more to say against the
		// new one than that its name is taken.
		made, err := e.create(ctx, driver)
		if !errors.Is(err, ErrNameTaken) {
			return made, err
		}
		if err := e.cfg.Engine.Remove(ctx, c.ID); err != nil {
			return Container{}, err
		}
	}
}

// busy asks the warden of a container whether commands run in it.
func (e *Executor) busy(ctx context.Context, c Container) (bool, error) {
	driver := Driver(c.Labels[labelDriver])
	if driver == DriverExec {
		return false, nil // nothing survives there
	}
	conn, err := e.reach(ctx, driver, c)
	if err != nil {
		e.cfg.Log.Warn("the sandbox does not answer; making a new one", "name", e.cfg.Name, "error", err)
		return false, nil
	}
	return wardenexec.Busy(ctx, conn)
}

func (e *Executor) create(ctx context.Context, driver Driver) (Container, error) {
	spec, err := e.spec(ctx, driver)
	if err != nil {
		return Container{}, err
	}
	info, err := e.cfg.Engine.Info(ctx)
	if err != nil {
		return Container{}, err
	}
	held, err := pin(spec, info.Local)
	if err != nil {
		return Container{}, err
	}
	defer held.release()
	id, err := e.cfg.Engine.Create(ctx, spec)
	if errors.Is(err, ErrNoImage) && e.cfg.EnsureImage != nil {
		if err = e.cfg.EnsureImage(ctx, spec.Image); err != nil {
			return Container{}, err
		}
		id, err = e.cfg.Engine.Create(ctx, spec)
	}
	if errors.Is(err, ErrNoImage) {
		return Container{}, corral.Errorf(corral.ErrUnavailable, "get it: corral images ensure "+spec.Image, "the engine has no image %s: %w", spec.Image, err)
	}
	if err != nil {
		return Container{}, err
	}
	var c Container
	if err = held.verify(); err == nil {
		err = e.cfg.Engine.Start(ctx, id)
	}
	if err == nil {
		c, err = e.cfg.Engine.Inspect(ctx, id)
	}
	if err == nil {
		err = held.verifyIn(c)
	}
	if err != nil {
		return Container{}, errors.Join(err, e.cfg.Engine.Remove(context.WithoutCancel(ctx), id))
	}
	return c, nil
}

// spec is the container that the configuration asks for.
func (e *Executor) spec(ctx context.Context, driver Driver) (Spec, error) {
	info, err := e.cfg.Engine.Info(ctx)
	if err != nil {
		return Spec{}, err
	}
	s := Spec{
		Name: e.name, Image: e.cfg.Image, Runtime: e.cfg.Runtime, User: e.cfg.User, Dir: Workdir,
		Mounts: []Mount{{Source: e.workspace(), Target: Workdir, ReadOnly: e.cfg.WorkspaceAccess == AccessReadOnly}},
		Stdio:  driver == DriverFrames,
	}
	e.cfg.restrict(&s)
	switch driver {
	case DriverFDs:
		if !info.Local {
			return Spec{}, corral.Errorf(corral.ErrUnavailable, "use the driver frames, or auto", "the driver fds needs an engine on this machine; this one is at %s", info.Address)
		}
		s.Args = []string{wardenPath, "-dir", socketDir}
		s.Mounts = append(s.Mounts, Mount{Source: e.runDir, Target: socketDir, ReadOnly: true})
	case DriverFrames:
		s.Args = []string{wardenPath, "-stdio"}
	case DriverExec:
		// Any program that lasts. It is the image's, like everything there.
		s.Args = []string{"/bin/sh", "-c", "trap : TERM; while :; do sleep 3600 & wait $!; done"}
	}
	if driver != DriverExec {
		m, err := e.mountWarden(ctx, info)
		if err != nil {
			return Spec{}, err
		}
		s.Mounts = append(s.Mounts, m)
	}
	if !info.Local && e.cfg.WorkspaceAccess != AccessNone {
		return Spec{}, corral.Errorf(corral.ErrUnavailable, "use access none, or an engine on this machine", "the workspace %s cannot be mounted by the engine at %s, which does not see this machine's files", e.cfg.Workspace, info.Address)
	}
	if !info.Local {
		s.Mounts[0] = Mount{Source: e.name, Target: Workdir, Volume: true}
	}
	if err := e.cfg.adapt(&s, info); err != nil {
		return Spec{}, err
	}
	return e.label(s, driver)
}

func (e *Executor) label(s Spec, driver Driver) (Spec, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return Spec{}, err
	}
	// The warden, and how it is spoken to, is nothing that commands find.
	place := s
	place.Mounts, place.Args, place.Stdio = s.Mounts[:1+len(e.cfg.mounts)], nil, false
	p, err := json.Marshal(place)
	if err != nil {
		return Spec{}, err
	}
	hash := func(b []byte) string {
		sum := sha256.Sum256(b)
		return hex.EncodeToString(sum[:])
	}
	s.Labels = map[string]string{
		Label: "sandbox", labelState: e.cfg.StateDir, labelName: e.cfg.Name,
		labelDriver: string(driver), labelConfig: hash(b), labelPlace: hash(p),
	}
	if e.cfg.Ephemeral {
		s.Labels[labelEphemeral] = "1"
	}
	return s, nil
}

// mountWarden is how the warden gets into the container: as a file of this
// machine, or in a volume of an engine elsewhere.
func (e *Executor) mountWarden(ctx context.Context, info EngineInfo) (Mount, error) {
	fail := func(err error) (Mount, error) {
		return Mount{}, corral.Errorf(corral.ErrUnavailable, corral.Hint(err), "cannot put the warden into the sandbox: %w", err)
	}
	file := e.cfg.WardenPath
	if file == "" {
		var err error
		if file, err = wardenbin.Find(filepath.Join(e.cfg.StateDir, "bin"), info.Arch); err != nil {
			return fail(err)
		}
	}
	if info.Local {
		real, err := filepath.EvalSymlinks(file)
		if err != nil {
			return fail(err)
		}
		return Mount{Source: real, Target: wardenPath, ReadOnly: true}, nil
	}
	filler, ok := e.cfg.Engine.(Filler)
	if !ok {
		return fail(fmt.Errorf("the engine at %s takes no files", info.Address))
	}
	content, err := readWarden(file)
	if err != nil {
		return fail(err)
	}
	sum := sha256.Sum256(content)
	volume := "corral-warden-" + hex.EncodeToString(sum[:8])
	if err := filler.Fill(ctx, volume, e.cfg.Image, "warden", content); err != nil {
		return fail(err)
	}
	return Mount{Source: volume, Target: filepath.Dir(wardenPath), ReadOnly: true, Volume: true}, nil
}
