package cli

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/terminal"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/pathenv"
)

const execLong = `Run a command and pass on its output, its exit code and your signals.

One argument is text for the host's shell: /bin/sh -lc in a sandbox, $SHELL -c
on the gateway. After -- come a program and its arguments, which no shell reads.

Commands are meant for the sandbox. The sandbox is off unless --sandbox (or
CORRAL_SANDBOX) says otherwise: then they run directly on this machine, with a
warning. --host sandbox turns it on. With it on and no engine that answers, a
command fails; it never runs on the gateway instead.

If a gateway runs (corral gateway), it runs the command, by its policy: then the
command also outlives this call, and restarts of the gateway. What the gateway
refuses does not run. --local is the one way past it.

Standard input goes to the command if it was redirected for this call, as
in "echo x | corral exec cat". One that is merely inherited, such as a script's
or a terminal, is left alone; --stdin passes it on in any case, and
--stdin=false never.

Ctrl-C and SIGTERM go to the command's whole process tree; a second one kills
it. With --pty they are typed into the terminal, as everything else is.

Exit code: the command's; 128+n if signal n ended it; 124 if its time was up;
125 if corral failed; 2 if the request makes no sense; 127 and 126 if there is
no such program or it cannot be executed.`

const execExample = `  corral exec --host sandbox 'python3 --version; git --version'
  corral exec --host sandbox --workspace . -- python3 -m unittest
  corral exec --timeout 1.5 'sleep 60'
  corral exec --json 'exit 3'
  corral exec --host sandbox --pty bash
  tar c . | corral exec --host sandbox 'tar t | wc -l'
  corral exec --background --id server 'python3 -m http.server'`

// Groups of flags in the help.
const (
	groupGateway = "Gateway"
	groupWhere   = "Where"
	groupWhat    = "What"
	groupIO      = "Input and output"
)

// execFlags are the flags of one call.
type execFlags struct {
	local      bool
	localGiven bool // by the flag, and not because no gateway has the sandbox
	agent      string
	session    string // the conversation
	id         string
	background bool
	wanted     []string // those given that only a gateway can serve
	shape      []string // the given flags that describe the sandbox or turn it on or off

	host, node  string
	elevated    bool
	security    string
	ask         string
	workdir     string
	env         []string
	pathPrepend []string
	timeout     cmdline.Seconds
	configured  bool // no timeout is given, and what is configured counts
	pty         bool
	stdin       bool
	stdinGiven  bool     // stdin was said one way or the other
	sandboxOnly []string // those given of the flags of that name
	json        bool
	maxOutput   int64

	waitApproval cmdline.Seconds
}

func (a commands) execCommand() *cobra.Command {
	o := &execFlags{timeout: cmdline.Seconds(app.DefaultTimeout)}
	cmd := &cobra.Command{
		Use:     "exec [flags] 'COMMAND' | exec [flags] -- PROGRAM [ARG]...",
		Short:   "Run a command",
		Long:    execLong,
		Example: execExample, SuggestFor: []string{"run"},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.localGiven = o.local
			o.configured = !a.Given("timeout")
			o.stdinGiven = cmd.Flags().Changed("stdin")
			o.sandboxOnly = app.OnlyGiven(cmd.Flags(), app.SandboxOnly)
			o.shape = app.OnlyGiven(cmd.Flags(), append([]string{"sandbox", "workspace"}, app.SandboxOnly...))
			o.wanted = app.OnlyGiven(cmd.Flags(), []string{"background", "id", "agent", "session", "security", "ask", "wait-approval"})
			if o.host == string(corral.HostSandbox) {
				a.TurnSandboxOn(cmd.Flags())
			}
			if err := o.named(cmd.Flags()); err != nil {
				return err
			}
			return a.exec(cmd.Context(), o, args, cmd.ArgsLenAtDash() == 0)
		},
	}
	f := cmd.Flags()
	// Flags after the command are the command's.
	f.SetInterspersed(false)
	f.SortFlags = false

	f.BoolVar(&o.background, "background", false, "print the session's ID and leave the command to the gateway")
	f.StringVar(&o.id, "id", "", "`ID`: of the session; one that is there already is not started again")
	a.AddAgentFlag(cmd, &o.agent)
	a.addConversationFlag(cmd, &o.session)
	f.BoolVar(&o.local, "local", false, "run it from here, past a gateway that runs and its policy")
	f.Var(&o.waitApproval, "wait-approval", "`TIME`: wait so long for the approval of a command that needs one (by default a terminal is asked, and without one the call does not wait)")
	cmdline.Group(f, groupGateway, "background", "id", "agent", "session", "local", "wait-approval")

	cmdline.AddChoice(cmd, &o.host, "host", "where to run (default sandbox)",
		string(corral.HostSandbox), string(corral.HostGateway), string(corral.HostNode))
	f.StringVar(&o.node, "node", "", "`NODE`: id, name or address of a node, or the beginning of its id; means --host node")
	f.BoolVar(&o.elevated, "elevated", false, "leave the sandbox for the gateway")
	cmdline.Group(f, groupWhere, "host", "node", "elevated")
	addPolicyFlags(cmd, o)

	f.StringVar(&o.workdir, "workdir", "", "`DIR`: where to run, relative to the workspace (default the workspace)")
	f.StringArrayVarP(&o.env, "env", "e", nil, "`NAME[=VALUE]`: set a variable, or pass on ours; may be repeated")
	f.StringArrayVar(&o.pathPrepend, "path-prepend", nil, "`DIR`: directory to put before PATH; may be repeated")
	f.Var(cmdline.Optional{Seconds: &o.timeout}, "timeout", "`TIME`: kill the whole process tree after so many seconds, or 90s, 10m, 2h; 0 is never (default what tools.exec.timeout says, which is 30m)")
	app.FromEnvironment(f, "timeout")
	cmdline.Group(f, groupWhat, "workdir", "env", "path-prepend", "timeout")

	f.BoolVarP(&o.pty, "pty", "t", false, "run it on a terminal")
	f.BoolVarP(&o.stdin, "stdin", "i", false, "pass on standard input, also one that is merely inherited; =false: never")
	f.BoolVar(&o.json, "json", false, "print the result as JSON instead of the output as it comes")
	f.Var(cmdline.Size{Bytes: &o.maxOutput}, "max-output", "`SIZE`: with --json, bytes kept of the head and of the tail of each text (default 100000)")
	cmdline.Group(f, groupIO, "pty", "stdin", "json", "max-output")

	a.AddSandboxFlags(cmd)
	cmdline.Must(cmd.MarkFlagDirname("workdir"))
	cmdline.Must(cmd.MarkFlagDirname("path-prepend"))
	cmdline.Must(cmd.RegisterFlagCompletionFunc("env", a.CompleteEnv))
	cmdline.Must(cmd.RegisterFlagCompletionFunc("node", a.CompleteNode))
	return cmd
}

// named refuses --node without a name, which would go where commands without
// --node go. With one it means --host node.
func (o *execFlags) named(f *pflag.FlagSet) error {
	switch {
	case o.node == "" && f.Changed("node"):
		return corral.Errorf(corral.ErrInvalid, "name a node (corral nodes ls lists them), or use --host node for whichever can run it", "--node is empty")
	case o.node != "" && o.host == "":
		o.host = string(corral.HostNode)
	}
	return nil
}

// command is what the command line asks for.
func (a commands) command(o *execFlags, args []string, program bool) (corral.Command, error) {
	cmd := corral.Command{
		ID: o.id, Dir: o.workdir, PathPrepend: o.pathPrepend, Timeout: time.Duration(o.timeout),
		Node: o.node, Elevated: o.elevated, Security: o.security, Ask: o.ask, Log: a.logLimit(o),
	}
	switch {
	case program:
		cmd.Args = args
	case len(args) > 1 && strings.HasPrefix(args[1], "-"):
		return corral.Command{}, corral.Errorf(corral.ErrInvalid, "flags of corral go before the command; quote a command with its arguments, or put -- before it",
			"%q comes after the command %q", args[1], args[0])
	case len(args) > 1:
		return corral.Command{}, corral.Errorf(corral.ErrInvalid, "quote the command, or put -- before a program and its arguments",
			"there are %d arguments, and the command is one", len(args))
	case len(args) == 1:
		cmd.Shell = args[0]
	}
	if err := o.check(); err != nil {
		return corral.Command{}, err
	}
	for _, e := range o.env {
		name, value, set := strings.Cut(e, "=")
		if !pathenv.ValidName(name) {
			return corral.Command{}, corral.Errorf(corral.ErrInvalid, "use letters, digits and underscores, not beginning with a digit, as in -e NAME=VALUE",
				"--env %q: %q is not the name of an environment variable", e, name)
		}
		if !set {
			if value, set = daemon.LookupEnv(a.Environ, name); !set {
				a.Warn(fmt.Sprintf("The variable %s is not set here, so it is not passed on.", name))
				continue
			}
		}
		if cmd.Env == nil {
			cmd.Env = make(map[string]string)
		}
		cmd.Env[name] = value
	}
	return cmd, cmd.Validate()
}

// check refuses flags that make no sense, by themselves or together.
func (o *execFlags) check() error {
	switch {
	case o.local && len(o.wanted) > 0:
		return corral.Errorf(corral.ErrInvalid, "leave out one of them", "--local runs a command without a gateway, and --%s is for one", o.wanted[0])
	case o.host == string(corral.HostNode) && o.local:
		return corral.Errorf(corral.ErrInvalid, "leave out one of them", "--local runs a command without a gateway, and only a gateway reaches nodes")
	case o.host == string(corral.HostNode) && len(o.shape) > 0:
		return corral.Errorf(corral.ErrInvalid, "leave it out; --workdir says where on the node a command runs",
			"--%s is about this machine and its sandboxes, and the command would run on host node", o.shape[0])
	case o.background && o.maxOutput != 0:
		return corral.Errorf(corral.ErrInvalid, "leave out one of them", "--max-output bounds output, and with --background there is none")
	case slices.Contains(o.pathPrepend, ""):
		return corral.Errorf(corral.ErrInvalid, "name a directory", "--path-prepend is empty")
	case slices.Contains(o.sandboxOnly, "ephemeral") && slices.Contains(o.sandboxOnly, "name"):
		return corral.Errorf(corral.ErrInvalid, "leave out one of them", "--ephemeral is for a sandbox that nobody uses again, and --name for one that is there for the next command")
	case o.maxOutput != 0 && !o.json:
		return corral.Errorf(corral.ErrInvalid, "add --json, or leave it out", "--max-output bounds the texts of --json, and there are none")
	}
	return nil
}

// streamTail is how far behind the reader of our standard output may be before
// output is lost. It is on disk, and only as large as the output.
const streamTail = 1 << 30

func (a commands) logLimit(o *execFlags) corral.LogLimit {
	if o.json {
		return corral.LogLimit{Tail: max(corral.LimitOutput.Tail, o.maxOutput)}
	}
	return corral.LogLimit{Tail: streamTail}
}

// kept is runner.Options.MaxOutput.
func (o *execFlags) kept() int {
	if !o.json {
		return -1
	}
	return int(min(o.maxOutput, math.MaxInt32))
}

// input is what becomes the command's standard input; nil is none.
func (a commands) input(o *execFlags) *os.File {
	switch {
	case o.stdinGiven && o.stdin:
		return a.Stdin
	case o.stdinGiven:
		return nil
	case terminal.Is(a.Stdin):
		if o.pty {
			return a.Stdin
		}
		return nil
	case foreground.Redirected(a.Stdin):
		return a.Stdin
	case foreground.Pending(a.Stdin):
		a.Warn("Standard input is shared with the calling program and was not passed on; --stdin passes it on, and --stdin=false leaves out this warning.")
	}
	return nil
}
