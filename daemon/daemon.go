// Package daemon is a gateway in a program of one's own, made from a configuration
// file as corral gateway makes it: with its engines, sandboxes, policy, approvals,
// sessions and nodes.
//
//	g, err := daemon.Open(ctx, daemon.Options{Config: "corral.json5", StateDir: "/var/lib/app/corral"})
//	if err != nil {
//		return err
//	}
//	defer g.Close()
//	res, err := runner.Run(ctx, g.Agent("main"), corral.Command{Shell: "make test"}, runner.Options{})
//
// What runs outlives the program: the next one that opens the state directory has every
// session with its output and its end. Serve makes it reachable over HTTP, for clients
// and for the commands of the program corral.
package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool/mcp"
)

// Options say which configuration a gateway goes by, and where it keeps what it has.
type Options struct {
	// Config is the file of the configuration, which has to be there. Empty: the one
	// that corral itself would read, if there is one.
	Config string
	// StateDir is for one gateway at a time. Empty: that of corral itself.
	StateDir string
	// Serve makes the socket gateway.sock in the state directory, where Corral's
	// commands find the gateway, and listens where the configuration says. Without it
	// nothing can connect, and the method Serve is an error.
	Serve bool
	// Environ is what commands on this machine may inherit. Nil: os.Environ.
	Environ []string
	// Log is nil for no log.
	Log *slog.Logger
}

// A Gateway runs the commands of agents. It is safe for use by several goroutines.
type Gateway struct{ g *daemon.Gateway }

// Open takes a state directory and makes everything ready. It returns an error of kind
// corral.ErrConflict while another gateway has that directory.
func Open(ctx context.Context, o Options) (*Gateway, error) {
	opt, err := o.gateway()
	if err != nil {
		return nil, err
	}
	g, err := daemon.OpenGateway(ctx, opt)
	if err != nil {
		return nil, err
	}
	return &Gateway{g}, nil
}

func (o Options) gateway() (g daemon.GatewayOptions, err error) {
	g = daemon.GatewayOptions{
		Options: daemon.Options{
			Settings: daemon.Settings{Mode: daemon.ModeOff},
			Environ:  o.Environ, Backends: daemon.RealBackends(), Version: version(), Log: o.Log,
		},
		Alone: !o.Serve,
	}
	if g.Environ == nil {
		g.Environ = os.Environ()
	}
	g.Log = cmp.Or(g.Log, slog.New(slog.DiscardHandler))
	if g.Config, err = daemon.FindConfig(o.Config, os.Getenv); err == nil {
		err = g.Config.Check()
	}
	if err != nil {
		return g, err
	}
	g.StateDir, err = daemon.StateDir(o.StateDir, "set StateDir", os.Getenv)
	return g, err
}

// version is that of Corral in this program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == "github.com/corral-exec/corral" && m.Version != "" {
				return m.Version
			}
		}
	}
	return "unknown"
}

// Agent is what an agent's commands run on: a corral.Executor whose processes are
// sessions. Its configuration, its sandbox and its approvals go by its name.
func (g *Gateway) Agent(name string) session.Agent { return g.g.Agent(name) }

// Tools are the tools of an agent that works with a model, such as openai/gpt-5.2: which
// there are is up to both, and to what the configuration says at each call.
func (g *Gateway) Tools(agent, model string) mcp.Tools { return g.g.Tools(agent, model) }

// Serve serves until ctx ends, and then lets go of everything as Close does; or until Close
// is called, which leaves no time for requests under way. Commands go on. It is an error of
// kind corral.ErrInvalid if Options.Serve was not set.
func (g *Gateway) Serve(ctx context.Context) error { return g.g.Serve(ctx) }

// Close lets go of everything. Commands go on.
func (g *Gateway) Close() error { return g.g.Close() }
