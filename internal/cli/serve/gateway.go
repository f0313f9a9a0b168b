package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/session"
)

const gatewayLong = `Serve commands, sessions and tools over HTTP until a signal ends it.

It listens on the socket gateway.sock in the state directory, which only this
user can open, and with --listen also on a TCP port of the loopback interface,
where the token in gateway.token is asked for. Corral's other commands find it
by its socket. The configuration can say as much, and more: gateway.listen,
.socket, .hosts and .origins.

What runs outlives the gateway: after a restart, also after kill -9, every
session is there with its output and its exit status. The first SIGTERM or
Ctrl-C ends it in good order: sessions go to the background, requests under way
are answered. The second one ends it at once, which costs nothing but those.

With --nodes it also listens for other machines, which run commands of host node
once they are paired: corral nodes --help.

How commands run is said here, by the flags and variables of corral exec. Each
agent has a sandbox of its own.`

const gatewayExample = `  corral gateway
  corral gateway --sandbox all --workspace /srv/checkout --listen 127.0.0.1:7777
  corral gateway --nodes 0.0.0.0:7422
  corral gateway status
  corral gateway install --user && systemctl --user enable --now corral`

// gatewayFlags are those of corral gateway that are not settings.
type gatewayFlags struct {
	listen    string
	nodes     string // where nodes connect to
	webSocket string // by WebSocket
	advertise string // what they are told of that
	loggerFlags

	timeout     cmdline.Seconds
	pathPrepend []string
	elevated    bool

	maxSessions int
	keep        int
	keepBytes   int64
	keepFor     cmdline.Seconds
}

const groupServe = "Serving"

func (a commands) gatewayCommand() *cobra.Command {
	o := &gatewayFlags{}
	cmd := &cobra.Command{
		Use: "gateway [flags]", Short: "Serve commands, sessions and tools over HTTP",
		Long: gatewayLong, Example: gatewayExample,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return app.OnlyCommands(cmd, args)
			}
			a.Stays()
			return a.runGateway(cmd.Context(), o)
		},
	}
	a.addGatewayFlags(cmd, o)
	cmd.AddCommand(a.gatewayStatus(), a.gatewayInstall(), a.gatewayUninstall())
	return cmd
}

// addGatewayFlags defines what can be said about a gateway.
func (a commands) addGatewayFlags(cmd *cobra.Command, o *gatewayFlags) {
	o.timeout = cmdline.Seconds(app.DefaultTimeout)
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.listen, "listen", "", "`ADDRESS:PORT`: listen there as well, such as 127.0.0.1:7777; beyond the loopback interface with gateway.tls and keys")
	f.StringVar(&o.nodes, "nodes", "", "`ADDRESS:PORT`: listen there for nodes, such as 0.0.0.0:7422; over TLS, for keys that were approved")
	f.StringVar(&o.webSocket, "nodes-websocket", "", "`ADDRESS:PORT`: listen there for nodes that connect by WebSocket, where nothing else passes")
	f.StringVar(&o.advertise, "nodes-advertise", "", "`HOST:PORT`: where nodes connect to, if not there; several are separated by commas")
	f.Var(cmdline.Optional{Seconds: &o.timeout}, "timeout", "`TIME`: of commands whose tool call has none; 0 is never (default 30m)")
	f.StringArrayVar(&o.pathPrepend, "path-prepend", nil, "`DIR`: directory to put before PATH of tool calls; may be repeated")
	f.BoolVar(&o.elevated, "allow-elevated", false, "let calls that ask for it leave the sandbox for this machine")
	f.IntVar(&o.maxSessions, "max-sessions", 1000, "`N`: how many sessions of an agent may run at a time")
	f.IntVar(&o.keep, "keep", 200, "`N`: how many sessions of an agent that have ended are kept")
	o.keepBytes = 2 << 30
	f.Var(cmdline.Size{Bytes: &o.keepBytes}, "keep-bytes", "`SIZE`: how much output of sessions that have ended is kept in all")
	o.keepFor = cmdline.Seconds(24 * time.Hour)
	f.Var(&o.keepFor, "keep-for", "`TIME`: how long a session is kept after its end")
	o.loggerFlags.add(cmd)
	own := []string{"listen", "nodes", "nodes-websocket", "nodes-advertise", "timeout", "path-prepend", "allow-elevated", "max-sessions", "keep", "keep-bytes", "keep-for", "log-format", "log-level"}
	cmdline.Group(f, groupServe, own...)
	app.FromEnvironment(f, slices.DeleteFunc(slices.Clone(own), func(name string) bool { return name == "path-prepend" })...)
	cmdline.Must(cmd.MarkFlagDirname("path-prepend"))
	a.AddSandboxesFlags(cmd)
}

// maxKeep is for how long executors keep processes that ended and were not removed: a gateway
// that starts would find the sessions, and no output.
const maxKeep = 7 * 24 * time.Hour

// check refuses what makes no sense.
func (o *gatewayFlags) check() error {
	for _, n := range []struct {
		flag  string
		value int
	}{{"max-sessions", o.maxSessions}, {"keep", o.keep}} {
		if n.value <= 0 {
			return corral.Errorf(corral.ErrInvalid, "use a number greater than 0", "--%s is %d", n.flag, n.value)
		}
	}
	if o.keepFor == 0 {
		return corral.Errorf(corral.ErrInvalid, "use a time such as 24h", "--keep-for is 0")
	}
	if o.keepFor > cmdline.Seconds(maxKeep) {
		return corral.Errorf(corral.ErrInvalid, "use at most 168h", "--keep-for is %v, and output is kept for 7 days at most", time.Duration(o.keepFor))
	}
	if slices.Contains(o.pathPrepend, "") {
		return corral.Errorf(corral.ErrInvalid, "name a directory", "--path-prepend is empty")
	}
	for flag, at := range map[string]string{"nodes": o.nodes, "nodes-websocket": o.webSocket} {
		if at != "" && !daemon.IsAddress(at) {
			return corral.Errorf(corral.ErrInvalid, "write it like 0.0.0.0:7422", "--%s %q is no address and port", flag, at)
		}
	}
	if o.listen == "" {
		return nil
	}
	return daemon.CheckListen(fmt.Sprintf("--listen %q", o.listen), o.listen)
}

// loggerFlags are those of the programs that write a log.
type loggerFlags struct {
	logFormat string
	logLevel  string
	quietly   bool // only warnings and errors are logged, unless logLevel says otherwise
}

func (o *loggerFlags) add(cmd *cobra.Command) {
	cmdline.AddChoice(cmd, &o.logFormat, "log-format", "how the log on standard error is written (default text)", "text", "json")
	cmdline.AddChoice(cmd, &o.logLevel, "log-level", "what is logged (default info; of corral mcp and with --quiet warn)", "debug", "info", "warn", "error")
}

func (o *loggerFlags) level(quiet bool) slog.Level {
	level := slog.LevelInfo
	if o.quietly || quiet {
		level = slog.LevelWarn
	}
	if o.logLevel != "" {
		cmdline.Must(level.UnmarshalText([]byte(o.logLevel))) // one of the choices
	}
	return level
}

// logger writes the log, to standard error as daemons do.
func (a commands) logger(o *loggerFlags) *slog.Logger {
	opt := &slog.HandlerOptions{Level: o.level(a.Quiet)}
	if o.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.Stderr, opt))
	}
	return slog.New(slog.NewTextHandler(a.Stderr, opt))
}

// runGateway serves until a signal. A second one ends the program at once: commands and
// sessions lose nothing by that.
func (a commands) runGateway(ctx context.Context, o *gatewayFlags) error {
	if err := a.checkGateway(o); err != nil {
		return err
	}
	ctx, stop := foreground.Serving(ctx)
	defer stop()
	opt, err := a.gatewayOptions(o)
	if err != nil {
		return err
	}
	opt.Doctor = a.Findings
	g, err := daemon.OpenGateway(ctx, opt)
	if err != nil {
		return err
	}
	return g.Serve(ctx)
}

// gatewayOptions are what the flags say of a gateway.
func (a commands) gatewayOptions(o *gatewayFlags) (g daemon.GatewayOptions, err error) {
	if g.Options, err = a.Options(a.logger(&o.loggerFlags)); err != nil {
		return g, err
	}
	if g.StateDir, err = a.StateDir(); err != nil {
		return g, err
	}
	g.Listen, g.Nodes, g.WebSocket, g.Advertise = o.listen, o.nodes, o.webSocket, o.advertise
	if a.Given("timeout") {
		g.Timeout = (*time.Duration)(&o.timeout)
	}
	g.PathPrepend, g.Elevated = o.pathPrepend, o.elevated
	g.MaxSessions, g.Retention = o.maxSessions, session.Retention{Count: o.keep, Bytes: o.keepBytes, Age: time.Duration(o.keepFor)}
	return g, nil
}

// checkGateway refuses what makes no sense, and says what is implied.
func (a commands) checkGateway(o *gatewayFlags) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := a.Settings.Complete(); err != nil {
		return err
	}
	return checkWorkspace(a.Settings.Workspace.Dir)
}

// checkWorkspace refuses what every command would fail by.
func checkWorkspace(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err != nil {
		return corral.Errorf(corral.ErrDir, "make it, or give --workspace another", "cannot use the workspace %s: %w", dir, err)
	}
	return nil
}
