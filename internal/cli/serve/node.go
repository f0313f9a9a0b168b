package serve

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/fleet/join"
	"github.com/corral-exec/corral/internal/fleet/node"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/unit"
)

const nodeLong = `Make this machine a node of a gateway: connect to it, and run the commands that
agents send to host node, until a signal ends it.

The machine dials out; nothing has to reach it. What to run here is printed by
corral nodes join on the gateway, with the line that says where the gateway is
and by what it is known.

The first time the machine shows a code and waits until a person approves it on
the gateway, unless it is given a setup token (--token-file, or
CORRAL_NODE_TOKEN). It keeps a key and the line in the state directory: from
then on corral node alone is enough.

This machine decides for itself which commands run: by its configuration and its
approvals file. The names of agents in it are the gateway's. The gateway
can only be stricter. What needs an approval is approved on the gateway, or with
node.approvals: "local" in the configuration only here. node.directories limits
where commands work. With --sandbox all, or sandbox.mode in the configuration,
commands run in a container of their agent's, where none of that is asked.

Commands outlive the program: after a restart, also after kill -9, every one is
there with its output and its exit status. Without a connection it connects
again, for ever. The first SIGTERM or Ctrl-C ends it in good order.`

const nodeExample = `  corral node --gateway corral://gw.example.com:7422/UKEY/CERT
  corral node install --gateway corral://gw.example.com:7422/UKEY/CERT
  corral node status`

// nodeFlags are those of corral node that are not settings.
type nodeFlags struct {
	gateway   string
	repair    bool
	tokenFile string
	name      string
	loggerFlags
}

const groupNode = "Node"

func (a commands) nodeCommand() *cobra.Command {
	o := &nodeFlags{}
	cmd := &cobra.Command{
		Use: "node [flags]", Short: "Make this machine a node of a gateway",
		Long: nodeLong, Example: nodeExample,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return app.OnlyCommands(cmd, args)
			}
			a.Stays()
			return a.runNode(cmd.Context(), o)
		},
	}
	a.addNodeFlags(cmd, o)
	f := cmd.Flags()
	f.BoolVar(&o.repair, "repair", false, "become a node of the gateway of --gateway, though this machine is one of another")
	cmdline.Group(f, groupNode, "repair")
	cmd.AddCommand(a.nodeStatus(), a.nodeApprovals(), a.nodeInstall(), a.nodeUninstall())
	return cmd
}

// addNodeFlags defines what can be said about a node for good.
func (a commands) addNodeFlags(cmd *cobra.Command, o *nodeFlags) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.gateway, "gateway", "", "`LINE`: where the gateway is, as corral nodes join prints it there (default the one of before)")
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE`: a setup token, with which nobody has to approve this machine; read until it is a node")
	f.StringVar(&o.name, "name", "", "`NAME`: what to be called, unless the gateway decides otherwise (default what it was called before, or the machine's name)")
	f.StringVar(&a.Settings.Workspace.Dir, "workspace", "", "`DIR`: where commands run that name no directory (default the current directory)")
	o.loggerFlags.add(cmd)
	a.Settings.Mode = daemon.ModeOff
	cmdline.AddChoice(cmd, &a.Settings.Mode, "sandbox", "whether commands run in a sandbox here, which is as sandbox.* of the configuration has it", daemon.ModeOff, daemon.ModeAll, daemon.ModeRequired)
	app.FromEnvironment(f, "gateway", "workspace", "sandbox", "log-format", "log-level")
	cmdline.Must(f.SetAnnotation("name", cmdline.EnvAnnotation, []string{"CORRAL_NODE_NAME"}))
	cmdline.Group(f, groupNode, "gateway", "token-file", "name", "workspace", "sandbox", "log-format", "log-level")
	cmdline.Must(cmd.MarkFlagFilename("token-file"))
	cmdline.Must(cmd.MarkFlagDirname("workspace"))
}

// checkNode refuses what makes no sense, and says what is implied.
func (a commands) checkNode(o *nodeFlags) error {
	if o.repair && o.gateway == "" {
		return corral.Errorf(corral.ErrInvalid, "give --gateway LINE, as corral nodes join prints it on the gateway", "--repair says that there is another gateway, and --gateway does not say which")
	}
	if o.gateway != "" {
		if _, err := join.ParseLine(o.gateway); err != nil {
			return err
		}
	}
	if o.tokenFile != "" {
		abs, err := filepath.Abs(o.tokenFile)
		if err != nil {
			return corral.Errorf(corral.ErrDir, "change to a directory that exists", "cannot tell where %s is: %w", o.tokenFile, err)
		}
		o.tokenFile = abs
	}
	if err := a.Settings.Complete(); err != nil {
		return err
	}
	return checkWorkspace(a.Settings.Workspace.Dir)
}

// runNode is a node until a signal.
func (a commands) runNode(ctx context.Context, o *nodeFlags) (err error) {
	if err := a.checkNode(o); err != nil {
		return err
	}
	dir, err := a.nodeDir()
	if err != nil {
		return err
	}
	ctx, stop := foreground.Serving(ctx)
	defer stop()
	opt, err := a.Options(a.logger(&o.loggerFlags))
	if err != nil {
		return err
	}
	return daemon.ServeNode(ctx, daemon.NodeOptions{
		Options: opt, Dir: dir, Line: o.gateway, Repair: o.repair, Name: o.name, TokenFile: o.tokenFile, Changed: a.showCode(opt.Log),
	})
}

// showCode shows the code of a node that waits for its approval, each once.
func (a commands) showCode(log *slog.Logger) func(join.Line, node.Status) {
	shown := ""
	return func(line join.Line, st node.Status) {
		if st.Code == "" || st.Code == shown {
			return
		}
		shown = st.Code
		err := a.PrintLine(fmt.Sprintf("This machine asks to be a node of the gateway at %s. Its code is\n\n    %[2]s\n\nOn the gateway, if that shows the same one: corral nodes approve %[2]s",
			strings.Join(line.Hosts, ", "), st.Code))
		if err != nil {
			log.Warn("the code cannot be shown", "code", st.Code, "error", err)
		}
	}
}

func (a commands) nodeDir() (string, error) {
	dir, err := a.StateDir()
	return filepath.Join(dir, daemon.NodeDir), err
}

const nodeInstallLong = `Write a systemd unit that keeps this machine a node, and say what to do next. The
flags of corral node that are given here are those that it will have.

Without --user it is a unit of the machine, and the node runs as root. Commands
survive a restart of the unit, also one by an upgrade of corral. To wait for its
approval, or to see the code: corral node status.`

func (a commands) nodeInstall() *cobra.Command {
	o, i := &nodeFlags{}, &installFlags{}
	cmd := &cobra.Command{
		Use: "install [flags]", Short: "Write a systemd unit for a node",
		Long: nodeInstallLong, Example: "  corral node install --gateway corral://gw.example.com:7422/UKEY/CERT\n  corral node install --user --token-file ~/.config/corral/token",
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkNode(o); err != nil {
				return err
			}
			if err := a.knowsGateway(o); err != nil {
				return err
			}
			if a.Getenv(daemon.TokenVariable) != "" {
				a.Warn("The token in " + daemon.TokenVariable + " is not written to the unit, where others could read it: use --token-file.")
			}
			return a.install(cmd, unit.Node, i)
		},
	}
	i.add(cmd)
	a.addInstallFlags(cmd, func(own *cobra.Command) { a.addNodeFlags(own, o) })
	return cmd
}

// knowsGateway refuses a unit that could only fail.
func (a commands) knowsGateway(o *nodeFlags) error {
	if o.gateway != "" {
		return nil
	}
	dir, err := a.nodeDir()
	if err != nil {
		return err
	}
	r, err := node.Look(dir)
	if err == nil && r.Gateway == "" {
		err = corral.Errorf(corral.ErrInvalid, "give --gateway LINE, as corral nodes join prints it on the gateway", "it is not known which gateway this machine is to be a node of")
	}
	return err
}

func (a commands) nodeUninstall() *cobra.Command {
	return a.uninstallCommand(unit.Node, `Remove what corral node install wrote. A node that runs, its key and its commands
are left alone; what to do about them is said.`)
}
