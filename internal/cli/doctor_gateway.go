package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
)

// checkGatewayState reports whether a gateway runs, answers, and can use its
// engine, which need not be the one that is seen from here.
func (a *app) checkGatewayState(ctx context.Context) (gatewayState, doctor.Finding) {
	const name = "gateway"
	state, err := a.askGateway(ctx)
	if err != nil {
		return state, doctor.Failed(name, err, "Corral's commands cannot use the gateway.")
	}
	f := checkGateway(state, a.versionInfo().Version)
	if !state.sandboxed() {
		return state, f
	}
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	c, err := a.connect("")
	if err == nil {
		_, err = c.Sandboxes(ctx)
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		return state, doctor.Failed(name, err, "The gateway runs with the sandbox on, and its engine cannot be used: what is meant for a sandbox fails.")
	}
	if began, now := state.Gateway.Engine, a.engineChoice(); f.Status == doctor.OK && began != "" && began != now {
		f.Status, f.Summary = doctor.Warn, fmt.Sprintf("%s; its engine is %s, and the configuration says %s by now", f.Summary, began, now)
		f.Meaning, f.Fix = "Its sandboxes stay with the engine that was configured when it was started.", daemon.EngineRestart
	}
	return state, f
}

// sandboxed reports whether commands go to a gateway that has the sandbox on.
func (s gatewayState) sandboxed() bool {
	return s.Ready && s.Gateway != nil && s.Gateway.Sandbox != daemon.ModeOff
}

// checkSandboxOf says whether commands run in a sandbox: as the gateway has it
// that runs, and else as it is here.
func checkSandboxOf(s gatewayState, mode string, required bool) doctor.Finding {
	r := s.Gateway
	if !s.Ready || r == nil {
		return checkMode(mode, required)
	}
	f := checkMode(r.Sandbox, required)
	f.Summary = "of the gateway that runs: " + f.Summary
	if f.Fix != "" {
		f.Fix = "start the gateway with --sandbox all"
	}
	if mode != daemon.ModeOff && mode != r.Sandbox {
		f.Meaning = strings.TrimSpace(f.Meaning + " Here it is " + mode + ": what the gateway would run elsewhere is run by corral exec itself.")
	}
	return f
}

func checkGateway(s gatewayState, version string) doctor.Finding {
	const name = "gateway"
	who := "a gateway"
	if s.Gateway != nil {
		who = fmt.Sprintf("a gateway (pid %d, up %s)", s.Gateway.PID, ageText(time.Since(s.Gateway.StartedAt)))
	}
	switch {
	case !s.Running && s.Error == "":
		f := doctor.Fine(name, "no gateway runs with this state directory")
		f.Meaning = "Commands run from the call that asks for them. corral gateway starts one, and sessions are there then."
		return f
	case s.lone():
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

// checkMode says where commands run that are meant for a sandbox; required is
// sandbox.required.
func checkMode(mode string, required bool) doctor.Finding {
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
