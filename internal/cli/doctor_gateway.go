package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// checkGatewayState reports whether a gateway runs, and answers.
func (a *app) checkGatewayState(ctx context.Context) finding {
	const name = "gateway"
	state, err := a.askGateway(ctx)
	if err != nil {
		return failed(name, err, "Corral's commands cannot use the gateway.")
	}
	return checkGateway(state, a.versionInfo().Version)
}

func checkGateway(s gatewayState, version string) finding {
	const name = "gateway"
	who := "a gateway"
	if s.Gateway != nil {
		who = fmt.Sprintf("a gateway (pid %d, up %s)", s.Gateway.PID, ageText(time.Since(s.Gateway.StartedAt)))
	}
	switch {
	case !s.Running && s.Error == "":
		f := ok(name, "no gateway runs with this state directory")
		f.Meaning = "Commands run from the call that asks for them. corral gateway starts one, and sessions are there then."
		return f
	case s.lone():
		return finding{Name: name, Status: levelWarn, Summary: s.Error,
			Meaning: "Its sessions are seen by its client alone, and other commands run from the call that asks for them.", Fix: s.Hint}
	case !s.Running:
		return finding{Name: name, Status: levelFail, Summary: "the gateway does not answer: " + s.Error,
			Meaning: "Corral's commands cannot use it.", Fix: cmp.Or(s.Hint, "look at its log, and start it again; commands survive that")}
	case !s.Ready:
		return finding{Name: name, Status: levelFail, Summary: who + " runs and is not ready: " + s.Error,
			Meaning: "It takes no commands now.", Fix: cmp.Or(s.Hint, "wait for it, or start it again; commands survive that")}
	case s.Gateway != nil && s.Gateway.Version != version:
		return finding{Name: name, Status: levelWarn, Summary: fmt.Sprintf("%s runs and answers; it is corral %s, and this is corral %s", who, s.Gateway.Version, version),
			Meaning: "They understand each other as far as both know what is meant.", Fix: "start it again; commands survive that"}
	}
	return ok(name, "%s runs and answers", who)
}
