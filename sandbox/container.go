package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wardenbin"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/place"
	"github.com/corral-exec/corral/sandbox/users"
)

// Labels of our containers.
const (
	Label          = "corral"           // "sandbox"
	labelState     = "corral.state"     // the state directory
	labelName      = "corral.name"      // Config.Name
	labelBox       = "corral.box"       // its ID, and the name of its directory
	labelConfig    = "corral.config"    // hash of the configuration, see Config.Hash
	labelDriver    = "corral.driver"    // how it is spoken to
	labelEphemeral = "corral.ephemeral" // "1": goes with its owner
	labelPlace     = "corral.place"     // which directory the state directory is, see place
	labelOwner     = "corral.owner"     // the container of the engine that the program is in; none if it is in none
)

const (
	wardenPath = "/.corral/warden" // in the container
	socketDir  = "/.corral/run"
)

// isolatedKernel reports whether the runtime has a kernel of its own.
func (c *Config) isolatedKernel() bool { return c.gvisor() || c.kata() }

// kata reports whether the runtime is a virtual machine, into which no socket of this
// machine reaches.
func (c *Config) kata() bool { return strings.HasPrefix(filepath.Base(c.Runtime), "kata") }

// gvisor reports whether the runtime is gVisor.
func (c *Config) gvisor() bool { return engine.IsGVisor(c.Runtime) }

// at is the setup for an engine whose own runtime has a kernel of its own, which is the same as
// if it were configured. Its hash is that of the configuration.
func (s *setup) at(info engine.Info) *setup {
	at := *s
	at.useDefault(info)
	return &at
}

func (c *Config) useDefault(info engine.Info) {
	if own := (Config{Runtime: info.Default}); c.Runtime == "" && own.isolatedKernel() {
		c.Runtime = info.Default
	}
}

// passesFiles reports whether the inside of a container can be given descriptors, as
// far as that is known: gVisor has to be configured for it, and some engines say so.
func (c *Config) passesFiles(info engine.Info) bool {
	switch {
	case !info.Local || c.kata():
		return false
	case c.gvisor():
		opens, known := info.OpensSockets(c.Runtime)
		return opens || !known
	}
	return true
}

// plan is the container that the configuration asks for: what commands find
// there. Whatever is added to it makes containers new, see Hash; what differs
// from box to box is added by spec.
func (c *Config) plan() engine.Spec {
	s := engine.Spec{Image: c.Image, Runtime: c.Runtime, User: c.Isolation.User, Dir: c.workdir(), Root: c.Isolation.Root, Home: c.ownHome()}
	if !s.Root && c.anyUser && !c.uids.None() && !c.isolatedKernel() {
		s.UIDRange = c.Isolation.UIDRange
	}
	if !c.inMemory() { // else restrict adds it; as a mount it is the first
		s.Mounts = []engine.Mount{{Source: c.Workspace.Dir, Target: c.workdir(), ReadOnly: c.Workspace.Access == AccessReadOnly, Size: c.Workspace.Size}}
	}
	if c.SetupCommand != "" {
		sum := sha256.Sum256([]byte(c.SetupCommand))
		s.Setup = hex.EncodeToString(sum[:])
	}
	c.restrict(&s)
	return s
}

// openHint is for gVisor that passes no descriptors.
const openHint = "give runsc the flag --host-uds=open (docs/reference/engines.md), or use the driver frames, or auto"

// spec is the container of a box.
func (s *setup) spec(info engine.Info, rec boxRecord, warden engine.Mount) (engine.Spec, error) {
	if err := s.checkOwner(info); err != nil {
		return engine.Spec{}, err
	}
	c := s.plan()
	c.User = s.user(info)
	c.Name = rec.Container
	c.Stdio = rec.Driver == DriverFrames
	switch rec.Driver {
	case DriverFDs:
		if !info.Local {
			return engine.Spec{}, corral.Errorf(corral.ErrUnavailable, "use the driver frames, or auto", "the driver fds cannot be used with the engine at %s: %w", info.Address, errElsewhere)
		}
		if !s.passesFiles(info) {
			return engine.Spec{}, corral.Errorf(corral.ErrInvalid, openHint, "the driver fds cannot reach into gVisor: the engine's %s opens no sockets", s.Runtime)
		}
		c.Args = []string{wardenPath, "-dir", socketDir}
		if s.gvisor() { // which shows no change that is made outside
			c.Args = append(c.Args, "-blind")
		}
		c.Mounts = append(c.Mounts, engine.Mount{Source: filepath.Join(boxDir(s.StateDir, rec.ID), boxRun), Target: socketDir, ReadOnly: true})
	case DriverFrames:
		c.Args = []string{wardenPath, "-stdio"}
	case DriverExec:
		// Any program that lasts. It is the image's, like everything there.
		c.Args = []string{"/bin/sh", "-c", "trap : TERM; while :; do sleep 3600 & wait $!; done"}
	}
	if rec.Driver != DriverExec {
		c.Mounts = append(c.Mounts, warden)
	}
	switch {
	case s.inMemory():
	case info.Local && rec.Workspace != "":
		c.Mounts[0].Source = workspaceDir(s.StateDir, rec.Workspace)
	case rec.Workspace != "":
		c.Mounts[0] = engine.Mount{Source: workspaceVolume(rec.Workspace), Target: s.workdir(), Volume: true}
	}
	if err := s.adapt(&c, info); err != nil {
		return engine.Spec{}, err
	}
	c.Labels = map[string]string{ // also those that say nothing: else an image's would count
		Label: "sandbox", labelState: s.StateDir, labelName: rec.Sandbox, labelBox: rec.ID,
		labelDriver: string(rec.Driver), labelConfig: rec.Hash, labelOwner: info.Container, labelEphemeral: "", labelPlace: "",
	}
	if s.Ephemeral {
		c.Labels[labelEphemeral] = "1"
	}
	if p := place.Of(s.StateDir, s.Ephemeral); p != (place.Place{}) {
		c.Labels[labelPlace] = p.String()
	}
	return c, nil
}

// errElsewhere: no socket of this program reaches into the engine's containers.
var errElsewhere = errors.New("it does not see this program's files")

// create makes the container of a box and starts it. It mounts what was judged, as far as
// this program can see that. On an engine with which it shares only directories,
// no other user may be able to change the directories above a mount.
func (s *setup) create(ctx context.Context, spec engine.Spec, info engine.Info, r *boxRecord) error {
	held, err := s.hold(spec, info.Here())
	defer held.Release()
	if err != nil {
		return err
	}
	spec.Mounts = slices.Clone(spec.Mounts)
	undo, err := s.own(&spec, info, held)
	if err != nil {
		return err
	}
	defer undo()
	if spec.Mounts, err = info.Translate(spec.Mounts); err != nil {
		return err
	}
	if err := s.mountHosts(&spec, info, r); err != nil {
		return err
	}
	id, err := s.made(ctx, spec, r)
	if err != nil {
		return err
	}
	if id, err = s.mountAccounts(ctx, id, &spec, info, r); err != nil {
		return err
	}
	if err := held.Verify(); err != nil {
		return err
	}
	if err := s.Engine.Start(ctx, id); err != nil {
		return err
	}
	c, err := s.Engine.Inspect(ctx, id)
	if err != nil {
		return err
	}
	env, err := s.Engine.Env(ctx, id)
	if err != nil {
		return err
	}
	if err := r.noteEnv(s.StateDir, env); err != nil {
		return err
	}
	if !info.Local { // its processes are not this machine's
		return held.Verify()
	}
	if err := held.VerifyIn(c.PID); err != nil {
		return err
	}
	if c.PID == 0 || !s.entered(info) {
		return nil
	}
	err = users.Prepare(c.PID, boxDir(s.StateDir, r.ID), s.account(), users.Parse(s.Isolation.User), users.Parse(spec.User))
	if err != nil && spec.User == s.user(info) && !s.Isolation.Root && (errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission)) {
		s.Log.Info("by its /etc/passwd the sandbox's user has what the image says", "name", s.Name, "user", spec.User, "why", err)
		return nil // the user is one that others may be too, perhaps because no more can be had here
	}
	return err
}

// made makes the container of a box, and notes it.
func (s *setup) made(ctx context.Context, spec engine.Spec, r *boxRecord) (id string, err error) {
	id, err = s.Engine.Create(ctx, spec)
	if errors.Is(err, engine.ErrNoImage) && s.EnsureImage != nil {
		if err = s.EnsureImage(ctx, spec.Image); err != nil {
			return "", err
		}
		id, err = s.Engine.Create(ctx, spec)
	}
	if errors.Is(err, engine.ErrNoImage) {
		return "", corral.Errorf(corral.ErrUnavailable, "get it: corral images ensure "+spec.Image, "the engine has no image %s: %w", spec.Image, err)
	}
	if err != nil {
		return "", err
	}
	reached(stepCreated)
	r.ContainerID = id
	return id, writeJSON(boxPath(s.StateDir, r.ID), r, false)
}

// entered reports whether files can be mounted in containers that run: see users.Prepare.
func (s *setup) entered(info engine.Info) bool {
	return info.Local && !s.isolatedKernel() && !info.Rootless && os.Geteuid() == 0
}

// account is what commands are by /etc/passwd.
func (s *setup) account() users.Account {
	a := users.Account{Home: cmp.Or(s.ownHome(), s.home())}
	if s.Workspace.Home != "" {
		a.Name = path.Base(s.Workspace.Home)
	}
	return a
}

// mountAccounts has a container whose files cannot be replaced when it runs know its user. What
// the image says is read from the container, and since none gets another mount, it is made anew.
func (s *setup) mountAccounts(ctx context.Context, id string, spec *engine.Spec, info engine.Info, r *boxRecord) (string, error) {
	reader, ok := s.Engine.(engine.FileReader)
	if !ok || !info.Here() || s.entered(info) {
		return id, nil
	}
	before := len(spec.Mounts)
	for _, f := range s.account().Files(users.Parse(s.Isolation.User), users.Parse(spec.User)) {
		text, err := reader.ReadFile(ctx, id, "/"+f.Path, users.MaxAccounts)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = s.mountFile(spec, info, r, "/"+f.Path, f.Change(text))
		}
		if err != nil {
			return "", err
		}
	}
	if len(spec.Mounts) == before {
		return id, nil
	}
	if err := s.Engine.Remove(ctx, id); err != nil {
		return "", err
	}
	return s.made(ctx, *spec, r)
}

// mountHosts has a container without a network know the addresses of localhost and of itself.
// The engine would write them only where it makes the container's network namespace, which
// takes a multiple of the time of everything else.
func (s *setup) mountHosts(spec *engine.Spec, info engine.Info, r *boxRecord) error {
	if spec.Network != "" {
		return nil
	}
	text := "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.0.1\t" + engine.Hostname(spec.Name) + "\n"
	return s.mountFile(spec, info, r, engine.HostsFile, []byte(text))
}

// mountFile mounts a file of a box's own, unless something else is mounted there, or the engine
// does not see the state directory.
func (s *setup) mountFile(spec *engine.Spec, info engine.Info, r *boxRecord, target string, text []byte) error {
	file := filepath.Join(boxDir(s.StateDir, r.ID), path.Base(target))
	mounts, err := info.Translate([]engine.Mount{{Source: file, Target: target, ReadOnly: true}})
	if err != nil || spec.Covers(target) {
		return nil
	}
	spec.Mounts = append(spec.Mounts, mounts...)
	return errors.Join(os.WriteFile(file, text, 0o644), os.Chmod(file, 0o644)) // the container's user reads it, and can be any
}

// mountWarden is how the warden gets into the container: as a file of this
// machine, or in a volume of an engine elsewhere.
func (s *setup) mountWarden(ctx context.Context, info engine.Info) (engine.Mount, error) {
	fail := func(err error) (engine.Mount, error) {
		return engine.Mount{}, corral.Errorf(corral.ErrUnavailable, corral.Hint(err), "cannot put the warden into the sandbox: %w", err)
	}
	file := s.WardenPath
	if file == "" {
		var err error
		if file, err = wardenbin.Find(filepath.Join(s.StateDir, wardensDir), info.Arch); err != nil {
			return fail(err)
		}
	}
	if info.Local {
		real, err := filepath.EvalSymlinks(file)
		if err != nil {
			return fail(err)
		}
		return engine.Mount{Source: real, Target: wardenPath, ReadOnly: true}, nil
	}
	filler, ok := s.Engine.(engine.Filler)
	if !ok {
		return fail(fmt.Errorf("the engine at %s takes no files", info.Address))
	}
	content, err := wardenbin.Read(file)
	if err != nil {
		return fail(err)
	}
	sum := sha256.Sum256(content)
	volume := "corral-warden-" + hex.EncodeToString(sum[:8])
	if err := filler.Fill(ctx, volume, s.Image, "warden", content); err != nil {
		return fail(err)
	}
	return engine.Mount{Source: volume, Target: filepath.Dir(wardenPath), ReadOnly: true, Volume: true}, nil
}
