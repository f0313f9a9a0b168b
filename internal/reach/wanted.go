package reach

import (
	"fmt"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/daemon"
)

// Wanted is the place that a call requires.
type Wanted struct {
	Mode      string // of the sandbox; empty: any
	By        string // the flag or variable that requires it
	Host      corral.Host
	Elevated  bool
	Workspace bool // the call names the directory to work on
}

// Check refuses a gateway that would run the command elsewhere: a command for a sandbox
// must not run without one because the gateway has none. The gateway's own refusals
// need no check here.
func (w Wanted) Check(there corral.Route) error {
	switch {
	case there.Host == corral.HostNode: // the node decides about its sandbox
	case w.Mode == daemon.ModeRequired && !there.Sandboxed,
		w.Mode == daemon.ModeAll && !there.Sandboxed && w.Host != corral.HostGateway && !w.Elevated:
		return corral.Errorf(corral.ErrUnavailable, "sandbox.mode all in the gateway's configuration turns its sandbox on; "+PastHint, "%s asks for a sandbox, and the gateway would run the command on this machine", w.By)
	case w.Mode == daemon.ModeOff && there.Sandboxed:
		return corral.Errorf(corral.ErrUnavailable, "leave it out; "+PastHint, "%s asks for no sandbox, and the gateway would run the command in one", w.By)
	case there.Sandboxed && w.Workspace:
		return corral.Errorf(corral.ErrInvalid, "leave it out; "+PastHint, "--workspace cannot change what the sandboxes of the gateway work on")
	}
	return nil
}

// Unasked explains why no policy decides on a command that runs without a gateway, if a
// user would expect a decision; empty: nothing hints at a gateway or a policy.
func (p Place) Unasked(configured config.Exec) string {
	const unasked = "so that no policy decides on this command"
	lone := daemon.LoneRecord(p.StateDir)
	r, err := daemon.ReadRecord(p.StateDir)
	switch {
	case lone != nil:
		return fmt.Sprintf("corral mcp (pid %d) is the gateway of the state directory, for its own client alone, %s.", lone.PID, unasked)
	case err == nil && r != nil:
		return fmt.Sprintf("The gateway (pid %d) is gone, and was not stopped, %s; corral gateway starts one.", r.PID, unasked)
	case len(configured.Rules) > 0, configured.Security.Source.Name != daemon.SourceDefault, configured.Ask.Source.Name != daemon.SourceDefault:
		return "No gateway runs, " + unasked + ", whatever is configured; corral gateway starts one."
	}
	return ""
}
