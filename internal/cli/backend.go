package cli

import (
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/policy/guard"
)

// openRouter returns the Router for one command. --host counts as configured: the
// operator types it.
func (a commands) openRouter(o *execFlags, cmd corral.Command) (*corral.Router, corral.Host, error) {
	opt, err := a.Options(nil)
	if err != nil {
		return nil, "", err
	}
	lone := daemon.Lone{
		Options: opt, StateDir: a.StateDir, Host: corral.Host(o.host), Rules: guard.EnvRules(a.Defaults), Progress: a.Progress(),
		Check: func(route corral.Route) error { return a.checkRoute(o, route) },
	}
	return lone.Open(cmd)
}

// checkRoute refuses a route that the flags contradict, and warns where it is less
// than they say.
func (a commands) checkRoute(o *execFlags, route corral.Route) error {
	if a.Settings.Mode == daemon.ModeRequired && !route.Sandboxed {
		return corral.Errorf(corral.ErrDenied, "leave out --host and --elevated, or set --sandbox all",
			"a sandbox is required, and the command would run on host %s", route.Host)
	}
	if !route.Sandboxed && len(o.sandboxOnly) > 0 {
		return o.withoutSandbox(route)
	}
	if route.Host == corral.HostGateway {
		if a.Without != "" {
			a.Warn(a.Without)
		}
		if a.Settings.Workspace.Access == "ro" {
			a.Warn("On the gateway a command can write to the workspace, whatever --workspace-access says.")
		}
	}
	return nil
}

// withoutSandbox refuses flags that say what a sandbox is like.
func (o *execFlags) withoutSandbox(route corral.Route) error {
	flags := "--" + strings.Join(o.sandboxOnly, ", --")
	if route.Reason == corral.RouteSandboxOff {
		hint := "turn the sandbox on: --sandbox all, or CORRAL_SANDBOX=all"
		if o.host == "" {
			hint = "add --host sandbox, or " + hint
		}
		return corral.Errorf(corral.ErrInvalid, hint, "there is no sandbox for %s: it is off", flags)
	}
	return corral.Errorf(corral.ErrInvalid, "leave that out, or send the command to the sandbox with --host sandbox",
		"there is no sandbox for %s: the command would run on host %s", flags, route.Host)
}
