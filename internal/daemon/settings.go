package daemon

import (
	"cmp"
	"math"
	"path/filepath"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/sandbox/engines"
	"github.com/corral-exec/corral/sandbox/secrets"
)

// Modes of the sandbox.
const (
	ModeOff      = "off"      // the default: commands meant for it run on the gateway
	ModeAll      = "all"      // commands go there unless they are sent elsewhere
	ModeRequired = "required" // and none may be sent elsewhere
)

// Settings are what is the same from one call to the next. Zero values mean
// the defaults of package sandbox.
type Settings struct {
	Mode     string
	Required bool // commands that are meant for the sandbox fail while it is off

	Name      string
	Owner     string // the agent that it is for; empty: all
	Key       string // of the scope; empty: none
	Image     string
	Engine    string // empty: what the configuration says, or auto
	Runtime   string
	Driver    string
	Workspace string
	Access    string
	User      string
	Memory    int64
	CPUs      float64
	Pids      float64
	Ephemeral bool

	// Of the configuration alone.
	Swap, Tmp, FileSize, OpenFiles int64
	WorkspaceSize, OutputRate      int64
	Medium                         string
	Lifetime                       time.Duration
	Binds, BindRoots               []string
	Network, Seccomp, AppArmor     string
	TimeZone                       string
	Secrets                        map[string]secrets.Source
	SetupCommand                   string
	UIDRange                       string

	Home string // of a sandbox of a client of E2B; empty: as of all others
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
	configured(o, "workspace", &s.Workspace, c.Workspace)
	configured(o, "user", &s.User, box.User)
	s.Workspace = config.ExpandHome(s.Workspace, AccountHome())
	configuredAs(o, "engine", &s.Engine, box.Engine)
	configuredAs(o, "driver", &s.Driver, box.Driver)
	configuredAs(o, "workspace-access", &s.Access, box.WorkspaceAccess)
	configuredNumber(o, "memory", &s.Memory, box.Memory)
	configuredNumber(o, "cpus", &s.CPUs, box.CPUs)
	configuredNumber(o, "pids", &s.Pids, box.Pids)
	configuredNumber(o, "swap", &s.Swap, box.Swap)
	configuredNumber(o, "tmp", &s.Tmp, box.Tmp)
	configuredNumber(o, "file-size", &s.FileSize, box.FileSize)
	configuredNumber(o, "open-files", &s.OpenFiles, box.OpenFiles)
	configuredNumber(o, "workspace-size", &s.WorkspaceSize, box.WorkspaceSize)
	configuredAs(o, "workspace-medium", &s.Medium, box.WorkspaceMedium)
	configuredNumber(o, "output-rate", &s.OutputRate, box.OutputRate)
	configured(o, "lifetime", &s.Lifetime, box.Lifetime)
	configured(o, "network", &s.Network, box.Network)
	configured(o, "seccomp", &s.Seccomp, box.Seccomp)
	configured(o, "apparmor", &s.AppArmor, box.AppArmor)
	configured(o, "timezone", &s.TimeZone, box.TimeZone)
	configured(o, "uid-range", &s.UIDRange, box.UIDRange)
	configured(o, "setup-command", &s.SetupCommand, box.SetupCommand)
	s.Secrets = nil
	for name, from := range box.Secrets {
		if s.Secrets == nil {
			s.Secrets = map[string]secrets.Source{}
		}
		s.Secrets[name] = secrets.Source{File: config.ExpandHome(from.File, AccountHome()), Env: from.Env}
	}
	s.Binds, s.BindRoots = nil, ExpandHomes(box.BindRoots.Value)
	for _, level := range box.Binds {
		s.Binds = append(s.Binds, ExpandHomes(level.Value)...)
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

func configuredAs[T ~string](o *Options, flag string, to *string, from policy.Setting[T]) {
	configured(o, flag, to, policy.Setting[string]{Value: string(from.Value), Source: from.Source})
}

func configuredNumber[T, F ~int64 | ~float64](o *Options, flag string, to *T, from policy.Setting[F]) {
	configured(o, flag, to, policy.Setting[T]{Value: T(from.Value), Source: from.Source})
}

// Complete checks what no flag can check by itself, and says what is implied.
func (s *Settings) Complete() error {
	if s.Pids != math.Trunc(s.Pids) {
		return corral.Errorf(corral.ErrInvalid, "use a whole number", "--pids %v is no number of processes", s.Pids)
	}
	if s.Ephemeral && s.Name == "" {
		s.Name = "once-" + corral.NewID()[:12]
	}
	switch {
	case s.Access == "" && s.Workspace != "":
		s.Access = "rw"
	case s.Access != "" && s.Access != "none" && s.Workspace == "":
		s.Workspace = "."
	}
	if s.Workspace != "" {
		abs, err := filepath.Abs(s.Workspace)
		if err != nil {
			return corral.Errorf(corral.ErrDir, "change to a directory that exists", "cannot tell where the workspace %s is: %w", s.Workspace, err)
		}
		s.Workspace = abs
	}
	return nil
}
