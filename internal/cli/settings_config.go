package cli

import (
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/sandbox"
)

// sourceDefault names a value that nobody configured.
const sourceDefault = "default"

// given reports whether a flag is on the command line, or its variable set.
func (a *app) given(name string) bool {
	if a.flags == nil {
		return false
	}
	f := a.flags.Lookup(name)
	if f == nil {
		return false
	}
	variable := f.Annotations[envAnnotation]
	return f.Changed || len(variable) > 0 && a.getenv(variable[0]) != ""
}

// settingsOf are the settings with what the configuration says where no flag
// does.
func (a *app) settingsOf(c config.Agent) settings {
	s, box := a.settings, c.Sandbox
	s.Required = box.Required.Value
	if box.Mode.Source.Name != sourceDefault && !a.given("sandbox") {
		s.Mode = modeAll
		if box.Mode.Value == config.ModeOff {
			s.Mode = modeOff
		}
	}
	configured(a, "image", &s.Image, box.Image)
	configured(a, "runtime", &s.Runtime, box.Runtime)
	configured(a, "workspace", &s.Workspace, c.Workspace)
	configured(a, "user", &s.User, box.User)
	s.Workspace = config.ExpandHome(s.Workspace, accountHome())
	configuredAs(a, "engine", &s.Engine, box.Engine)
	configuredAs(a, "driver", &s.Driver, box.Driver)
	configuredAs(a, "workspace-access", &s.Access, box.WorkspaceAccess)
	configuredNumber(a, "memory", &s.Memory, box.Memory)
	configuredNumber(a, "cpus", &s.CPUs, box.CPUs)
	configuredNumber(a, "pids", &s.Pids, box.Pids)
	configuredNumber(a, "swap", &s.Swap, box.Swap)
	configuredNumber(a, "tmp", &s.Tmp, box.Tmp)
	configuredNumber(a, "file-size", &s.FileSize, box.FileSize)
	configuredNumber(a, "open-files", &s.OpenFiles, box.OpenFiles)
	configuredNumber(a, "workspace-size", &s.WorkspaceSize, box.WorkspaceSize)
	configuredAs(a, "workspace-medium", &s.Medium, box.WorkspaceMedium)
	configuredNumber(a, "output-rate", &s.OutputRate, box.OutputRate)
	configured(a, "lifetime", &s.Lifetime, box.Lifetime)
	configured(a, "network", &s.Network, box.Network)
	configured(a, "seccomp", &s.Seccomp, box.Seccomp)
	configured(a, "apparmor", &s.AppArmor, box.AppArmor)
	configured(a, "timezone", &s.TimeZone, box.TimeZone)
	configured(a, "uid-range", &s.UIDRange, box.UIDRange)
	configured(a, "setup-command", &s.SetupCommand, box.SetupCommand)
	s.Secrets = nil
	for name, from := range box.Secrets {
		if s.Secrets == nil {
			s.Secrets = map[string]sandbox.Secret{}
		}
		s.Secrets[name] = sandbox.Secret{File: config.ExpandHome(from.File, accountHome()), Env: from.Env}
	}
	s.Binds, s.BindRoots = nil, expandHomes(box.BindRoots.Value)
	for _, level := range box.Binds {
		s.Binds = append(s.Binds, expandHomes(level.Value)...)
	}
	return s
}

func expandHomes(paths []string) []string {
	var list []string
	for _, p := range paths {
		list = append(list, config.ExpandHome(p, accountHome()))
	}
	return list
}

// configured sets what no flag sets, and somebody configured.
func configured[T any](a *app, flag string, to *T, from policy.Setting[T]) {
	if from.Source.Name != sourceDefault && !a.given(flag) {
		*to = from.Value
	}
}

func configuredAs[T ~string](a *app, flag string, to *string, from policy.Setting[T]) {
	configured(a, flag, to, policy.Setting[string]{Value: string(from.Value), Source: from.Source})
}

func configuredNumber[T, F ~int64 | ~float64](a *app, flag string, to *T, from policy.Setting[F]) {
	configured(a, flag, to, policy.Setting[T]{Value: T(from.Value), Source: from.Source})
}

// configure completes the settings with what the configuration says of an agent.
func (a *app) configure(agent string) error {
	c, err := a.config()
	if err != nil {
		return err
	}
	of := c.Agent(agent)
	a.settings, a.defaults = a.settingsOf(of), of.Tools.Exec
	return a.settings.complete()
}
