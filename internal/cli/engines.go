package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/containerd"
	"github.com/corral-exec/corral/sandbox/docker"
)

// The engines that there are. Auto is the first of the others that answers.
const (
	engineAuto       = "auto"
	engineDocker     = "docker"
	enginePodman     = "podman"
	engineContainerd = "containerd"
)

// An engineClient is a connection to an engine.
type engineClient interface {
	sandbox.Engine
	Images() images.Engine
	// Ping says whether it answers, in as little time as that takes.
	Ping(ctx context.Context) error
	Versions(ctx context.Context) (sandbox.Versions, error)
}

// An engineKind is one that auto tries.
type engineKind struct {
	name     string
	variable string // of the environment: where it listens
	open     func() (engineClient, error)
}

// engineKinds are in the order in which auto tries them: Docker does all that
// there is, containerd all but networks and exec, both are tested in full; Podman
// is Docker's interface once more, and loses some of it. A user who is not root
// cannot use the machine's containerd, and comes to a Podman of their own.
func engineKinds() []engineKind {
	return []engineKind{
		{engineDocker, "DOCKER_HOST", func() (engineClient, error) { return docker.New(docker.Options{}) }},
		{engineContainerd, "CONTAINERD_ADDRESS", func() (engineClient, error) { return containerd.New(containerd.Options{}) }},
		{enginePodman, "CONTAINER_HOST", func() (engineClient, error) {
			return docker.New(docker.Options{Name: enginePodman, Host: podmanHost(os.Getenv, os.Geteuid())})
		}},
	}
}

// pointedAt is the first engine of which the environment says where it is: whoever
// says so means it. Nil: there is none.
func pointedAt(kinds []engineKind) *engineKind {
	for i, k := range kinds {
		if os.Getenv(k.variable) != "" {
			return &kinds[i]
		}
	}
	return nil
}

// podmanHost is where Podman listens: CONTAINER_HOST, which is Podman's own
// variable, else the socket of this user's, else root's.
func podmanHost(getenv func(string) string, uid int) string {
	if host := getenv("CONTAINER_HOST"); host != "" {
		return host
	}
	if runtime := getenv("XDG_RUNTIME_DIR"); uid != 0 && runtime != "" {
		return "unix://" + filepath.Join(runtime, "podman/podman.sock")
	}
	return "unix:///run/podman/podman.sock"
}

// connectEngine returns the engine of that name, which need not answer. Auto is
// the one that the environment points at, else the first that answers; if none
// does, it is docker, whose error says what to do.
func connectEngine(ctx context.Context, choice string) (engineClient, error) {
	kinds := engineKinds()
	if choice = cmp.Or(choice, engineAuto); choice != engineAuto {
		for _, k := range kinds {
			if k.name == choice {
				return k.open()
			}
		}
		return nil, corral.Errorf(corral.ErrInvalid, "use auto, docker, containerd or podman", "there is no engine %q", choice)
	}
	if k := pointedAt(kinds); k != nil {
		return k.open()
	}
	for _, k := range kinds {
		eng, err := k.open()
		if err != nil {
			continue // corral doctor says so
		}
		if eng.Ping(ctx) == nil {
			return eng, nil
		}
		if err := eng.Close(); err != nil {
			return nil, err
		}
	}
	return kinds[0].open()
}

// engineTried is what came of asking an engine whether it is there.
type engineTried struct {
	name string
	err  error // nil: it answers
}

func tryEngines(ctx context.Context) []engineTried {
	ctx, cancel := context.WithTimeout(ctx, askEngine)
	defer cancel()
	var tried []engineTried
	for _, k := range engineKinds() {
		eng, err := k.open()
		if err == nil {
			err = errors.Join(eng.Ping(ctx), eng.Close())
		}
		tried = append(tried, engineTried{k.name, err})
	}
	return tried
}

// checkEngines says which engine is used, and why, and what is wrong with the
// others.
func checkEngines(choice string, tried []engineTried) finding {
	used, why := choice, "as it is configured"
	if choice == engineAuto {
		used, why = engineDocker, "since none answers"
		for _, t := range tried {
			if t.err == nil {
				used, why = t.name, "the first of docker, containerd and podman that answers"
				break
			}
		}
		if k := pointedAt(engineKinds()); k != nil {
			used, why = k.name, "since "+k.variable+" says where it is"
		}
	}
	var others []string
	for _, t := range tried {
		switch {
		case t.name == used:
		case t.err == nil:
			others = append(others, t.name+" answers, too.")
		default:
			others = append(others, fmt.Sprintf("Of %s: %s.", t.name, strings.TrimSuffix(oneLine(t.err.Error()), ".")))
		}
	}
	f := ok("engines", "%s is used, %s", used, why)
	f.Meaning = strings.Join(append(others, "Another is chosen with --engine, CORRAL_ENGINE or sandbox.engine."), " ")
	return f
}

// addEngineFlag defines the flag that says which engine.
func (a *app) addEngineFlag(cmd *cobra.Command, f *pflag.FlagSet) {
	names := []string{engineAuto, engineDocker, engineContainerd, enginePodman}
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
		return engineAuto
	}
	return cmp.Or(string(c.Agent("").Sandbox.Engine.Value), engineAuto)
}
