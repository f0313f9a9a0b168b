package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/boundary"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A Sandbox has the properties that a sandbox would have, and the reasons why it could not
// be made.
type Sandbox struct {
	Agent    string `json:"agent"`
	Mode     string `json:"mode"` // off, all or required
	Required bool   `json:"required"`
	Scope    string `json:"scope"`
	Name     string `json:"name"` // of the sandbox

	Engine  SandboxEngine `json:"engine"`
	Image   string        `json:"image"`
	Missing bool          `json:"imageMissing,omitempty"` // the engine does not have it
	Runtime string        `json:"runtime,omitempty"`      // empty: the engine's
	User    string        `json:"user"`                   // owner of the files
	Root    bool          `json:"root,omitempty"`         // commands are root in it
	// UIDRange is the range of IDs from which the container gets a user of its own.
	// SharedUser says why it gets none; commands then run as User. Both are empty if
	// that is not known.
	UIDRange   string `json:"uidRange,omitempty"`
	SharedUser string `json:"sharedUser,omitempty"`

	Mounts  []Mount  `json:"mounts"`
	Secrets []string `json:"secrets"`       // names
	Env     []string `json:"env,omitempty"` // names of the configured variables
	Limits  Limits   `json:"limits"`

	Network  string `json:"network"`
	Seccomp  string `json:"seccomp"`  // corral, engine, none, or the file of the profile
	AppArmor string `json:"apparmor"` // engine, or the name of a profile

	// Mistakes are the mistakes in the file. The rest of it is explained all the same.
	Mistakes []config.Mistake `json:"mistakes"`
	Refusals []Refusal        `json:"refusals"`
	// Problems keep a sandbox from being made, although nothing is refused.
	Problems []Problem `json:"problems"`
	// More: there may be more mistakes, refusals and problems, hidden by these.
	More bool `json:"more"`

	File       string `json:"-"` // the file with the mistakes
	EngineCPUs int    `json:"-"` // processors of the engine's machine; 0: not known
}

// A Refusal is something in the configuration that sandboxes never get. The other fields
// of Sandbox show it as configured.
type Refusal struct {
	boundary.Refusal
	Where string `json:"where"` // in the configuration
}

type Problem struct {
	Problem string `json:"problem"`
	Where   string `json:"where,omitempty"` // in the configuration, if it concerns one key
	Fix     string `json:"fix"`
}

type SandboxEngine struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	Address string `json:"address,omitempty"`
	Error   string `json:"error,omitempty"` // why it does not answer
	Hint    string `json:"hint,omitempty"`
}

type Mount struct {
	Source string `json:"source,omitempty"` // empty: private, or in memory
	Target string `json:"target"`
	Access string `json:"access"` // ro or rw
	Memory bool   `json:"memory,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"` // largest size

	Refused bool `json:"refused,omitempty"` // it is in none
}

// Limits are in bytes, processors, processes and seconds; 0 is unlimited.
type Limits struct {
	Memory    int64   `json:"memory"`
	Swap      int64   `json:"swap"` // 0: none; -1: unlimited
	CPUs      float64 `json:"cpus"`
	Pids      int64   `json:"pids"`
	FileSize  int64   `json:"fileSize"`
	OpenFiles int64   `json:"openFiles"` // 0: as the engine has it
	Output    int64   `json:"outputRate"`
	Lifetime  float64 `json:"lifetime"`
}

// Sandbox describes the sandbox that an agent would get by the configuration. It makes
// nothing, and pulls no image.
func (m *Machine) Sandbox(ctx context.Context, agent string) (_ *Sandbox, err error) {
	c, bad, err := m.configOrRest()
	if err != nil {
		return nil, err
	}
	of := c.Agent(agent)
	m.Settings = m.SettingsOf(of)
	if err := m.Settings.Complete(); err != nil {
		return nil, err
	}
	s := m.Settings
	e := &Sandbox{
		Agent: agent, Mode: s.Mode, Required: s.Required || s.Mode == daemon.ModeRequired, Scope: string(of.Sandbox.Scope.Value),
		Name: cmp.Or(s.Name, daemon.SandboxName(of.Sandbox.Scope.Value, agent, "")), Runtime: s.Runtime,
		Mounts: []Mount{}, Secrets: slices.Sorted(maps.Keys(s.Mounts.Secrets)), Env: slices.Sorted(maps.Keys(s.Env)),
		Mistakes: []config.Mistake{}, Refusals: []Refusal{}, Problems: []Problem{},
	}
	if e.Secrets == nil {
		e.Secrets = []string{}
	}
	if bad != nil {
		e.Mistakes, e.File, e.More = bad.Mistakes, bad.File, true
	}
	eng, info := m.askEngine(ctx, &e.Engine)
	if eng != nil {
		defer func() { err = errors.Join(err, eng.Close()) }()
	}
	cfg := daemon.SandboxConfig(daemon.SandboxOptions{Settings: s})
	cfg.StateDir, cfg.Name = m.StateDir, e.Name
	spec, refusals, err := cfg.Explain(info)
	for _, r := range refusals {
		e.refuse(r, of)
	}
	if err != nil {
		e.problem(err, "")
		e.More = true
	}
	e.describe(s, spec)
	if why, err := cfg.SharedUser(info); err == nil { // an error was reported above
		e.SharedUser = why
		if why == "" {
			e.UIDRange = cmp.Or(s.Isolation.UIDRange, sandbox.DefaultUIDRange)
		}
	}
	if eng != nil {
		e.EngineCPUs = info.CPUs
		e.checkEngine(ctx, eng, of, s)
		e.checkImage(ctx, eng, of, cmp.Or(s.Image, images.Default))
	}
	return e, nil
}

// configOrRest is the configuration. If it has mistakes, it is the valid rest, with the
// error.
func (m *Machine) configOrRest() (*config.Config, *config.Error, error) {
	c, err := m.Config.Load()
	if bad, ok := errors.AsType[*config.Error](err); ok {
		if rest := config.Rest(bad.File); rest != nil {
			return rest, bad, nil
		}
	}
	return c, nil, err
}

// askEngine notes the engine, and returns it with its properties. If none answers, the
// properties are those of an engine on this machine.
func (m *Machine) askEngine(ctx context.Context, to *SandboxEngine) (daemon.Engine, engine.Info) {
	eng, err := m.Backends.Engine(ctx, m.EngineChoice())
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, doctor.AskLimit)
		defer cancel()
		var f doctor.EngineFacts
		if f, err = eng.Facts(ctx); err == nil {
			to.Name, to.Version, to.Address = f.Name, f.Version, f.Address
			return eng, f.Info
		}
		err = errors.Join(err, eng.Close())
	}
	to.Error, to.Hint = err.Error(), corral.Hint(err)
	return nil, engine.Info{Local: true, Arch: runtime.GOARCH}
}

// refuse notes a refusal with its place in the configuration.
func (e *Sandbox) refuse(r boundary.Refusal, of config.Agent) {
	from := of.Workspace.Source
	switch about(r) {
	case "network":
		from = of.Sandbox.Network.Source
	case "seccomp":
		from = of.Sandbox.Seccomp.Source
	case "apparmor":
		from = of.Sandbox.AppArmor.Source
	case "user":
		from = of.Sandbox.User.Source
	default:
		for _, level := range of.Sandbox.Binds {
			if i := slices.Index(daemon.ExpandHomes(level.Value), r.Subject); i >= 0 {
				from = level.Source
				from.Key += fmt.Sprintf("[%d]", i)
			}
		}
	}
	e.Refusals = append(e.Refusals, Refusal{r, from.String()})
}

// about is the kind of a refusal: network, seccomp, apparmor, user or bind.
func about(r boundary.Refusal) string {
	kind, _, _ := strings.Cut(string(r.Rule), "-")
	return kind
}

// Refused reports whether there is a refusal of a kind: network, seccomp, apparmor or user.
func (e *Sandbox) Refused(kind string) bool {
	return slices.ContainsFunc(e.Refusals, func(r Refusal) bool { return about(r.Refusal) == kind })
}

func (e *Sandbox) problem(err error, where string) {
	e.Problems = append(e.Problems, Problem{err.Error(), where, cmp.Or(corral.Hint(err), "corral doctor says more")})
}

// checkEngine notes which needed features the engine lacks.
func (e *Sandbox) checkEngine(ctx context.Context, eng daemon.Engine, of config.Agent, s daemon.Settings) {
	ctx, cancel := context.WithTimeout(ctx, doctor.AskLimit)
	defer cancel()
	spec := engine.Spec{Runtime: s.Runtime, CPUs: max(s.Resources.CPUs, 0)}
	if s.Isolation.Network != boundary.NetworkNone && !e.Refused("network") {
		spec.Network = s.Isolation.Network
	}
	lacks, err := eng.Check(ctx, spec)
	sources := map[engine.Part]policy.Source{
		engine.PartNetwork: of.Sandbox.Network.Source, engine.PartRuntime: of.Sandbox.Runtime.Source, engine.PartCPUs: of.Sandbox.CPUs.Source,
	}
	for _, l := range lacks {
		if refusals := boundary.Refusals(l.Err); len(refusals) > 0 { // refusals that depend on the engine
			e.refuse(refusals[0], of)
		} else {
			e.problem(l.Err, sources[l.Of].String())
		}
	}
	if err != nil {
		e.problem(err, "")
	}
}

// askRegistry is how long a registry has to say whether it has an image. After that, it
// counts as not known.
const askRegistry = 10 * time.Second

// checkImage checks the image of the sandbox. It never pulls it: that takes too long.
func (e *Sandbox) checkImage(ctx context.Context, eng daemon.Engine, of config.Agent, image string) {
	asking, cancel := context.WithTimeout(ctx, askRegistry)
	defer cancel()
	found, err := images.Store{Engine: eng.Images()}.Find(asking, image)
	e.Missing = !found
	if err == nil || asking.Err() != nil && ctx.Err() == nil {
		return
	}
	where := of.Sandbox.Image.Source.String()
	if of.Sandbox.Image.Source.Name == daemon.SourceDefault {
		where = "the default of sandbox.image"
	}
	e.problem(err, where)
}

func (e *Sandbox) describe(s daemon.Settings, spec engine.Spec) {
	e.Image, e.User, e.Root = spec.Image, spec.User, spec.Root
	e.Network, e.Seccomp, e.AppArmor = cmp.Or(spec.Network, boundary.NetworkNone), "engine", cmp.Or(spec.AppArmor, "engine")
	switch {
	case e.Refused("seccomp"):
		e.Seccomp = s.Isolation.Seccomp
	case spec.Profile == "":
		e.Seccomp = "none" // the sandbox has a kernel of its own
	case spec.Seccomp != nil && s.Isolation.Seccomp != "" && s.Isolation.Seccomp != "default":
		e.Seccomp = s.Isolation.Seccomp
	case spec.Seccomp != nil:
		e.Seccomp = "corral"
	}
	for _, m := range spec.Mounts {
		access := "rw"
		if m.ReadOnly {
			access = "ro"
		}
		refused := slices.ContainsFunc(e.Refusals, func(r Refusal) bool { return m.Target == sandbox.Workdir && r.Subject == m.Source })
		e.Mounts = append(e.Mounts, Mount{Source: m.Source, Target: m.Target, Access: access, Bytes: m.Size, Refused: refused})
	}
	for _, t := range spec.Tmpfs {
		e.Mounts = append(e.Mounts, Mount{Target: t.Target, Access: "rw", Memory: true, Bytes: t.Size})
	}
	shm := Mount{Target: "/dev/shm", Access: "rw", Memory: true, Bytes: spec.Shm}
	if s.Resources.Shm < 0 { // as much as there is memory
		shm.Bytes = 0
	}
	e.Mounts = append(e.Mounts, shm)
	e.Limits = Limits{Memory: spec.Memory, Swap: max(spec.Swap, -1), CPUs: spec.CPUs, Pids: spec.Pids, OpenFiles: spec.NoFiles, Output: max(s.Resources.OutputRate, 0), Lifetime: s.Lifetime.Seconds()}
	for _, l := range spec.Rlimits {
		if l.Type == "RLIMIT_FSIZE" {
			e.Limits.FileSize = int64(l.Hard)
		}
	}
}
