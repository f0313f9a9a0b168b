package daemon

import (
	"cmp"
	"maps"
	"path/filepath"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engines"
	"github.com/corral-exec/corral/sandbox/secrets"
)

// Modes of the sandbox.
const (
	ModeOff      = "off"      // the default: commands meant for it run on the gateway
	ModeAll      = "all"      // commands go there unless they are sent elsewhere
	ModeRequired = "required" // and none may be sent elsewhere
)

// Settings are what is the same from one call to the next. Zero values mean the defaults
// of package sandbox, whose groups they have.
type Settings struct {
	Mode     string
	Required bool // commands that are meant for the sandbox fail while it is off

	Name    string
	Owner   string // the agent that it is for; empty: all
	Key     string // of the scope; empty: none
	Image   string
	Engine  string // empty: what the configuration says, or auto
	Runtime string
	Driver  sandbox.Driver

	Workspace    sandbox.Workspace
	Resources    sandbox.Resources
	Isolation    sandbox.Isolation
	Mounts       sandbox.Mounts
	Env          map[string]string // of every command
	SetupCommand string
	Snapshot     bool // of what the login profile leaves
	Lifetime     time.Duration
	Ephemeral    bool
}

// SourceDefault names a value that is not configured.
const SourceDefault = "default"

// SettingsOf are the settings with what the configuration says where no flag
// does.
func (o *Options) SettingsOf(c config.Agent) Settings {
	s, box := o.Settings, c.Sandbox
	s.Required = box.Required.Value
	if box.Mode.Source.Name != SourceDefault && !o.given("sandbox") {
		s.Mode = ModeAll
		if box.Mode.Value == config.ModeOff {
			s.Mode = ModeOff
		}
	}
	configured(o, "image", &s.Image, box.Image)
	configured(o, "runtime", &s.Runtime, box.Runtime)
	configured(o, "workspace", &s.Workspace.Dir, c.Workspace)
	configured(o, "user", &s.Isolation.User, box.User)
	s.Workspace.Dir = config.ExpandHome(s.Workspace.Dir, AccountHome())
	configuredAs(o, "engine", &s.Engine, box.Engine)
	configuredAs(o, "driver", &s.Driver, box.Driver)
	configuredAs(o, "workspace-access", &s.Workspace.Access, box.WorkspaceAccess)
	configuredNumber(o, "memory", &s.Resources.Memory, box.Memory)
	configuredNumber(o, "cpus", &s.Resources.CPUs, box.CPUs)
	configuredNumber(o, "pids", &s.Resources.Pids, box.Pids)
	configuredNumber(o, "swap", &s.Resources.Swap, box.Swap)
	configuredNumber(o, "shm", &s.Resources.Shm, box.Shm)
	configuredNumber(o, "tmp", &s.Resources.Tmp, box.Tmp)
	configuredNumber(o, "file-size", &s.Resources.FileSize, box.FileSize)
	configuredNumber(o, "open-files", &s.Resources.OpenFiles, box.OpenFiles)
	configuredNumber(o, "workspace-size", &s.Workspace.Size, box.WorkspaceSize)
	configuredAs(o, "workspace-medium", &s.Workspace.Medium, box.WorkspaceMedium)
	configuredNumber(o, "output-rate", &s.Resources.OutputRate, box.OutputRate)
	configured(o, "lifetime", &s.Lifetime, box.Lifetime)
	configured(o, "network", &s.Isolation.Network, box.Network)
	configured(o, "seccomp", &s.Isolation.Seccomp, box.Seccomp)
	configured(o, "apparmor", &s.Isolation.AppArmor, box.AppArmor)
	s.Env = nil
	if zone := box.TimeZone.Value; zone != "" || len(box.Env) > 0 {
		s.Env = map[string]string{}
		maps.Copy(s.Env, box.Env)
		if zone != "" {
			s.Env["TZ"] = zone
		}
	}
	s.Isolation.Root = box.Root.Value
	configured(o, "uid-range", &s.Isolation.UIDRange, box.UIDRange)
	s.Snapshot = box.Login.Value == config.LoginSnapshot
	configured(o, "setup-command", &s.SetupCommand, box.SetupCommand)
	s.Mounts.Secrets = nil
	for name, from := range box.Secrets {
		if s.Mounts.Secrets == nil {
			s.Mounts.Secrets = map[string]secrets.Source{}
		}
		s.Mounts.Secrets[name] = secrets.Source{File: config.ExpandHome(from.File, AccountHome()), Env: from.Env}
	}
	s.Mounts.Binds, s.Mounts.BindRoots = nil, ExpandHomes(box.BindRoots.Value)
	for _, level := range box.Binds {
		s.Mounts.Binds = append(s.Mounts.Binds, ExpandHomes(level.Value)...)
	}
	return s
}

// EngineChoice is the engine of the commands that are about no agent.
func (o *Options) EngineChoice() string {
	if o.Settings.Engine != "" {
		return o.Settings.Engine
	}
	c, err := o.Config.Load()
	if err != nil { // which other checks and commands say
		return engines.Auto
	}
	return cmp.Or(string(c.Agent("").Sandbox.Engine.Value), engines.Auto)
}

func ExpandHomes(paths []string) []string {
	var list []string
	for _, p := range paths {
		list = append(list, config.ExpandHome(p, AccountHome()))
	}
	return list
}

// configured sets a value that is configured and that no flag sets.
func configured[T any](o *Options, flag string, to *T, from policy.Setting[T]) {
	if from.Source.Name != SourceDefault && !o.given(flag) {
		*to = from.Value
	}
}

func configuredAs[T, F ~string](o *Options, flag string, to *T, from policy.Setting[F]) {
	configured(o, flag, to, policy.Setting[T]{Value: T(from.Value), Source: from.Source})
}

func configuredNumber[T, F ~int64 | ~float64](o *Options, flag string, to *T, from policy.Setting[F]) {
	configured(o, flag, to, policy.Setting[T]{Value: T(from.Value), Source: from.Source})
}

// Complete checks what no flag can check by itself, and says what is implied.
func (s *Settings) Complete() error {
	if s.Ephemeral && s.Name == "" {
		s.Name = "once-" + corral.NewID()[:12]
	}
	switch {
	case s.Workspace.Access == "" && s.Workspace.Dir != "":
		s.Workspace.Access = "rw"
	case s.Workspace.Access != "" && s.Workspace.Access != "none" && s.Workspace.Dir == "":
		s.Workspace.Dir = "."
	}
	if s.Workspace.Dir != "" {
		abs, err := filepath.Abs(s.Workspace.Dir)
		if err != nil {
			return corral.Errorf(corral.ErrDir, "change to a directory that exists", "cannot tell where the workspace %s is: %w", s.Workspace.Dir, err)
		}
		s.Workspace.Dir = abs
	}
	return nil
}
