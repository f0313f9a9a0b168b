package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/sandbox/engines"
)

// engineTried is what came of asking an engine whether it is there.
type engineTried struct {
	name string
	err  error // nil: it answers
}

func tryEngines(ctx context.Context) []engineTried {
	ctx, cancel := context.WithTimeout(ctx, askEngine)
	defer cancel()
	var tried []engineTried
	for _, k := range engines.Kinds() {
		eng, err := k.Open()
		if err == nil {
			err = errors.Join(eng.Ping(ctx), eng.Close())
		}
		tried = append(tried, engineTried{k.Name, err})
	}
	return tried
}

// checkEngines says which engine is used, and why, and what is wrong with the
// others.
func checkEngines(choice string, tried []engineTried) finding {
	used, why := choice, "as it is configured"
	if choice == engines.Auto {
		used, why = engines.Docker, "since none answers"
		for _, t := range tried {
			if t.err == nil {
				used, why = t.name, "the first of docker, containerd and podman that answers"
				break
			}
		}
		if k, ok := engines.PointedAt(); ok {
			used, why = k.Name, "since "+k.Variable+" says where it is"
		}
	}
	var others []string
	for _, t := range tried {
		switch {
		case t.name == used:
		case t.err == nil:
			others = append(others, t.name+" answers, too.")
		default:
			others = append(others, fmt.Sprintf("Of %s: %s.", t.name, strings.TrimSuffix(words.OneLine(t.err.Error()), ".")))
		}
	}
	f := ok("engines", "%s is used, %s", used, why)
	f.Meaning = strings.Join(append(others, "Another is chosen with --engine, CORRAL_ENGINE or sandbox.engine."), " ")
	return f
}

// addEngineFlag defines the flag that says which engine.
func (a *app) addEngineFlag(cmd *cobra.Command, f *pflag.FlagSet) {
	names := []string{engines.Auto, engines.Docker, engines.Containerd, engines.Podman}
	f.Var(choice{&a.settings.Engine, names}, "engine", "`"+strings.Join(names, "|")+"`: what makes containers (default auto)")
	must(cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)))
	fromEnvironment(f, "engine")
}

// engineChoice is the engine of the commands that are about no agent.
func (a *app) engineChoice() string {
	if a.settings.Engine != "" {
		return a.settings.Engine
	}
	c, err := a.config()
	if err != nil { // which other checks and commands say
		return engines.Auto
	}
	return cmp.Or(string(c.Agent("").Sandbox.Engine.Value), engines.Auto)
}
