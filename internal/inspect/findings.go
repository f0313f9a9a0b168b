package inspect

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/internal/words"
)

// gatewayFinding says whether a gateway runs and answers.
func gatewayFinding(s reach.State, version string) doctor.Finding {
	const name = "gateway"
	who := "a gateway"
	if s.Gateway != nil {
		who = fmt.Sprintf("a gateway (pid %d, up %s)", s.Gateway.PID, words.Age(time.Since(s.Gateway.StartedAt)))
	}
	switch {
	case !s.Running && s.Error == "":
		f := doctor.Fine(name, "no gateway runs with this state directory")
		f.Meaning = "Commands run from the call that asks for them. corral gateway starts one, and sessions are there then."
		return f
	case s.Lone():
		return doctor.Finding{Name: name, Status: doctor.Warn, Summary: s.Error,
			Meaning: "Its sessions are seen by its client alone, and other commands run from the call that asks for them.", Fix: s.Hint}
	case !s.Running:
		return doctor.Finding{Name: name, Status: doctor.Fail, Summary: "the gateway does not answer: " + s.Error,
			Meaning: "Corral's commands cannot use it.", Fix: cmp.Or(s.Hint, "look at its log, and start it again; commands survive that")}
	case !s.Ready:
		return doctor.Finding{Name: name, Status: doctor.Fail, Summary: who + " runs and is not ready: " + s.Error,
			Meaning: "It takes no commands now.", Fix: cmp.Or(s.Hint, "wait for it, or start it again; commands survive that")}
	case s.Gateway != nil && s.Gateway.Version != version:
		return doctor.Finding{Name: name, Status: doctor.Warn, Summary: fmt.Sprintf("%s runs and answers; it is corral %s, and this is corral %s", who, s.Gateway.Version, version),
			Meaning: "They understand each other as far as both know what is meant.", Fix: "start it again; commands survive that"}
	}
	return doctor.Fine(name, "%s runs and answers", who)
}

// mostAway bounds the names of nodes that are offline, in columns.
const mostAway = 300

// nodes says whether the nodes of the running gateway can be used.
func nodes(n reach.Nodes) doctor.Finding {
	f := doctor.Fine("nodes", "the gateway listens for nodes at %s: %s", strings.Join(n.Listen, " and "), n)
	switch {
	case len(n.Problems) > 0:
		f.Status = doctor.Warn
		f.Meaning = runewidth.Truncate(strings.Join(n.Problems, "; "), mostAway, "…") + "."
		f.Fix = "corral nodes show NODE has all of it"
	case n.Offline > 0:
		f.Status = doctor.Warn
		f.Meaning = "What runs on a node that is offline goes on there; nothing can be started on it. Offline: " + runewidth.Truncate(strings.Join(n.Away, ", "), mostAway, "…") + "."
		f.Fix = "start corral node there, or revoke what is gone for good: corral nodes revoke NODE"
	case n.Pending > 0:
		f.Fix = "corral nodes pending lists what asks to be a node"
	case n.Online == 0:
		f.Fix = "corral nodes join says how to pair one"
	}
	return f
}

// sandboxOf says whether commands run in a sandbox: by the running gateway, or if there
// is none, by the mode given here.
func sandboxOf(s reach.State, mode string, required bool) doctor.Finding {
	r := s.Gateway
	if !s.Ready || r == nil {
		return modeFinding(mode, required)
	}
	f := modeFinding(r.Sandbox, required)
	f.Summary = "of the gateway that runs: " + f.Summary
	if f.Fix != "" {
		f.Fix = "start the gateway with --sandbox all"
	}
	if mode != daemon.ModeOff && mode != r.Sandbox {
		f.Meaning = strings.TrimSpace(f.Meaning + " Here it is " + mode + ": what the gateway would run elsewhere is run by corral exec itself.")
	}
	return f
}

// modeFinding says where commands for a sandbox run; required is sandbox.required.
func modeFinding(mode string, required bool) doctor.Finding {
	const name = "sandbox"
	switch mode {
	case daemon.ModeAll:
		return doctor.Fine(name, "on: commands run in a sandbox unless --host or --elevated sends them elsewhere")
	case daemon.ModeRequired:
		return doctor.Fine(name, "required: commands run in a sandbox or not at all")
	}
	f := doctor.Finding{Name: name, Status: doctor.Warn, Summary: "off (sandbox.mode)",
		Meaning: "Commands that are meant for it run directly on this machine, with no container and no approval.",
		Fix:     "corral config set sandbox.mode all, or set CORRAL_SANDBOX=all, or give --sandbox all or --host sandbox to corral exec"}
	if required {
		f.Meaning = "Commands that are meant for it are refused, since sandbox.required is set."
	}
	return f
}
