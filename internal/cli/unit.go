package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// A unitKind is a program of Corral's that systemd keeps running.
type unitKind struct {
	name        string // of the files, without their ending
	command     string // of corral
	description string
	after       string // what of the machine it starts after
}

var (
	gatewayUnit = unitKind{"corral", "gateway", "Corral gateway: runs the commands of agents", "network.target docker.service"}
	nodeUnit    = unitKind{"corral-node", "node", "Corral node: runs commands for a gateway", "network.target"}
)

// A unit is what is to be known for the systemd units of one.
type unit struct {
	unitKind
	User    bool     // a unit of this user's own systemd
	Program string   // the path of corral
	Args    []string // after the command
	Dir     string   // the state directory
	Home    string   // where commands run that name no directory
	Socket  bool     // systemd makes the socket
}

// service is the unit of the program. KillMode=process is what has commands
// survive a restart: systemd ends the program, and nothing that it started.
// Nothing here confines the program, since that would confine its commands:
// what a command may do on this machine is up to the policy, and what is to be
// confined goes to a sandbox.
func (u unit) service() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("[Unit]")
	line("Description=%s", u.description)
	line("Documentation=https://github.com/corral-exec/corral")
	if !u.User {
		line("After=%s", u.after)
	}
	if u.Socket {
		line("Requires=%s.socket", u.name)
	}
	line("")
	line("[Service]")
	line("Type=notify")
	line("ExecStart=%s", quoteUnit(append([]string{u.Program, u.command, "--state-dir", u.Dir}, u.Args...)))
	if !u.User {
		line("User=root") // also so that HOME and SHELL are set
	}
	line("WorkingDirectory=%s", escapePercent(u.Home))
	line("")
	line("# A restart ends the %s alone. Commands, and the wardens that keep them, go", u.command)
	line("# on; the next %s has them again, with all of their output.", u.command)
	line("KillMode=process")
	line("TimeoutStopSec=30")
	line("Restart=always")
	line("RestartSec=1")
	line("")
	line("# Commands inherit what is here. What would keep them from their work (a file")
	line("# system that is read-only, no new privileges, a filter of system calls) is left")
	line("# out: a command that is to be confined goes to a sandbox.")
	line("Delegate=yes")
	line("TasksMax=infinity")
	line("LimitNOFILE=65536")
	line("OOMPolicy=continue")
	line("")
	line("[Install]")
	if u.User {
		line("WantedBy=default.target")
	} else {
		line("WantedBy=multi-user.target")
	}
	return b.String()
}

// socket is the unit by which systemd listens for the gateway, so that clients
// wait through a restart instead of being refused.
func (u unit) socket() string {
	return fmt.Sprintf(`[Unit]
Description=Socket of the Corral gateway

[Socket]
ListenStream=%s
SocketMode=0600
DirectoryMode=0700
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
`, escapePercent(filepath.Join(u.Dir, api.SocketFile)))
}

// quoteUnit writes a command line as systemd reads it.
func quoteUnit(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		arg = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", "$$", "\n", `\n`).Replace(escapePercent(arg))
		if arg == "" || strings.ContainsAny(arg, " \t'\";\\") {
			arg = `"` + arg + `"`
		}
		quoted[i] = arg
	}
	return strings.Join(quoted, " ")
}

func escapePercent(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// A unitFile is a unit and where it belongs.
type unitFile struct{ path, text string }

func (u unit) files(dir string) []unitFile {
	files := []unitFile{{filepath.Join(dir, u.name+".service"), u.service()}}
	if u.Socket {
		files = append(files, unitFile{filepath.Join(dir, u.name+".socket"), u.socket()})
	}
	return files
}

const installLong = `Write a systemd unit that keeps a gateway running, and say what to do next. The
flags of corral gateway that are given here are those that it will have.

Without --user it is a unit of the machine, and the gateway runs as root.
Commands survive a restart of the unit, also one by an upgrade of corral:
systemctl restart ends the gateway and nothing that it runs.`

func (a *app) gatewayInstall() *cobra.Command {
	o := &gatewayFlags{}
	i := &installFlags{}
	cmd := &cobra.Command{
		Use: "install [flags]", Short: "Write a systemd unit for a gateway",
		Long: installLong, Example: "  corral gateway install --user --listen 127.0.0.1:7777\n  corral gateway install --print",
		Args: noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkGateway(o); err != nil {
				return err
			}
			return a.install(cmd, gatewayUnit, i)
		},
	}
	i.add(cmd)
	f := cmd.Flags()
	f.BoolVar(&i.socket, "socket", false, "have systemd listen on the Unix socket, so that clients wait through a restart")
	group(f, groupUnit, "socket")
	a.addInstallFlags(cmd, func(own *cobra.Command) { a.addGatewayFlags(own, o) })
	return cmd
}

// installFlags are those of every install.
type installFlags struct{ user, socket, show bool }

const groupUnit = "Unit"

func (i *installFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&i.user, "user", false, "a unit of this user, without root")
	f.BoolVar(&i.show, "print", false, "print it, and write nothing")
	group(f, groupUnit, "user", "print")
}

// install writes the units of a program with the flags of cmd, or prints them.
func (a *app) install(cmd *cobra.Command, kind unitKind, i *installFlags) error {
	u, err := a.newUnit(cmd, kind, i)
	if err != nil {
		return err
	}
	dir, err := a.unitDir(i.user)
	if err != nil {
		return err
	}
	if i.show {
		return a.printUnits(u.files(dir))
	}
	return a.writeUnits(u, dir)
}

// addInstallFlags are the flags of the program, of which --user is another thing
// here.
func (a *app) addInstallFlags(cmd *cobra.Command, add func(*cobra.Command)) {
	own := &cobra.Command{}
	add(own)
	own.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "user" {
			f.Name = "sandbox-user"
		}
		cmd.Flags().AddFlag(f) // with its completion
	})
	cmd.Flags().SortFlags = false
}

// newUnit describes the program that the flags ask for.
func (a *app) newUnit(cmd *cobra.Command, kind unitKind, i *installFlags) (unit, error) {
	u := unit{unitKind: kind, User: i.user, Socket: i.socket, Home: "/"}
	var err error
	if u.Program, err = os.Executable(); err == nil {
		u.Program, err = filepath.EvalSymlinks(u.Program)
	}
	if err != nil {
		return u, fmt.Errorf("cannot tell where corral is: %w", err)
	}
	if u.Dir, err = a.stateDir(); err != nil {
		return u, err
	}
	if u.User {
		u.Home = "~"
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		given := f.Changed || len(f.Annotations[envAnnotation]) > 0 && a.getenv(f.Annotations[envAnnotation][0]) != ""
		if len(f.Annotations[groupAnnotation]) == 0 || f.Annotations[groupAnnotation][0] == groupUnit || !given {
			return
		}
		u.Args = append(u.Args, unitArgs(f, a.settings.Workspace)...)
	})
	file, named, err := a.configFile()
	if named { // what is relative to here means nothing there
		u.Args = append(u.Args, "--config", file)
	}
	return u, err
}

// unitArgs are the arguments that set a flag to what it is set to now.
func unitArgs(f *pflag.Flag, workspace string) []string {
	name := "--" + f.Name
	switch f.Name {
	case "sandbox-user":
		name = "--user"
	case "workspace": // it does not mean what is relative to here
		return []string{name, workspace}
	}
	switch v := f.Value.(type) {
	case pflag.SliceValue:
		var args []string
		for _, dir := range v.GetSlice() {
			args = append(args, name, dir)
		}
		return args
	case optional:
		return []string{name, v.seconds.String()}
	}
	if f.Value.Type() == "bool" {
		return []string{name + "=" + f.Value.String()}
	}
	return []string{name, f.Value.String()}
}

// unitDir is where systemd looks for units.
func (a *app) unitDir(user bool) (string, error) {
	if !user {
		return "/etc/systemd/system", nil
	}
	if dir := a.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "systemd", "user"), nil
	}
	if home := a.getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "systemd", "user"), nil
	}
	return "", corral.Errorf(corral.ErrInvalid, "set HOME", "no directory for this user's units: HOME is not set")
}

func (a *app) printUnits(files []unitFile) error {
	var b strings.Builder
	for i, f := range files {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "# %s\n%s", f.path, f.text)
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

func systemctl(user bool) string {
	if user {
		return "systemctl --user"
	}
	return "systemctl"
}

func (a *app) writeUnits(u unit, dir string) error {
	if runtime.GOOS != "linux" {
		return corral.Errorf(errors.ErrUnsupported, "have the service manager of this machine start: corral "+u.command, "systemd is of Linux")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return noUnits(err)
	}
	for _, f := range u.files(dir) {
		if err := os.WriteFile(f.path, []byte(f.text), 0o644); err != nil {
			return noUnits(err)
		}
		if err := a.printLine("wrote " + f.path); err != nil {
			return err
		}
	}
	units := u.name
	if u.Socket {
		units = u.name + ".socket " + u.name
	}
	next := fmt.Sprintf("To start it now and with the machine:\n  %[1]s daemon-reload\n  %[1]s enable --now %[2]s", systemctl(u.User), units)
	if u.User {
		next += "\nTo have it run while nobody is logged in:\n  loginctl enable-linger"
	}
	return a.printLine(next)
}

func noUnits(err error) error {
	return corral.Errorf(corral.ErrDenied, "run it as root, or with --user for a unit of your own", "cannot write the unit: %w", err)
}

func (a *app) gatewayUninstall() *cobra.Command {
	return a.uninstallCommand(gatewayUnit, `Remove what corral gateway install wrote. A gateway that runs, its state and its
commands are left alone; what to do about them is said.`)
}

func (a *app) uninstallCommand(kind unitKind, long string) *cobra.Command {
	var user bool
	cmd := &cobra.Command{
		Use: "uninstall [flags]", Short: "Remove the systemd unit of a " + kind.command, Long: long,
		Args: noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.unitDir(user)
			if err != nil {
				return err
			}
			return a.uninstall(kind, dir, user)
		},
	}
	cmd.Flags().BoolVar(&user, "user", false, "the unit of this user")
	return cmd
}

func (a *app) uninstall(kind unitKind, dir string, user bool) error {
	removed := false
	for _, f := range (unit{unitKind: kind, Socket: true}).files(dir) {
		err := os.Remove(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return noUnits(err)
		}
		removed = true
		if err := a.printLine("removed " + f.path); err != nil {
			return err
		}
	}
	if !removed {
		return corral.Errorf(corral.ErrNotFound, "corral "+kind.command+" install writes one; --user says whose", "there is no unit of a %s in %s", kind.command, dir)
	}
	return a.printLine(fmt.Sprintf("To stop a %[3]s that runs:\n  %[1]s stop %[2]s; %[1]s daemon-reload", systemctl(user), kind.name, kind.command))
}
