package serve

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/unit"
)

const installLong = `Write a systemd unit that keeps a gateway running, and say what to do next. The
flags of corral gateway that are given here are those that it will have.

Without --user it is a unit of the machine, and the gateway runs as root.
Commands survive a restart of the unit, also one by an upgrade of corral:
systemctl restart ends the gateway and nothing that it runs.`

func (a commands) gatewayInstall() *cobra.Command {
	o := &gatewayFlags{}
	i := &installFlags{}
	cmd := &cobra.Command{
		Use: "install [flags]", Short: "Write a systemd unit for a gateway",
		Long: installLong, Example: "  corral gateway install --user --listen 127.0.0.1:7777\n  corral gateway install --print",
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkGateway(o); err != nil {
				return err
			}
			return a.install(cmd, unit.Gateway, i)
		},
	}
	i.add(cmd)
	f := cmd.Flags()
	f.BoolVar(&i.socket, "socket", false, "have systemd listen on the Unix socket, so that clients wait through a restart")
	cmdline.Group(f, groupUnit, "socket")
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
	cmdline.Group(f, groupUnit, "user", "print")
}

// install writes the units of a program with the flags of cmd, or prints them.
func (a commands) install(cmd *cobra.Command, kind unit.Kind, i *installFlags) error {
	u, err := a.newUnit(cmd, kind, i)
	if err != nil {
		return err
	}
	dir, err := unit.Dir(i.user, a.Getenv)
	if err != nil {
		return err
	}
	if i.show {
		_, err := io.WriteString(a.Stdout, unit.Text(u.Files(dir)))
		return err
	}
	if err := u.Write(dir, func(path string) error { return a.PrintLine("wrote " + path) }); err != nil {
		return err
	}
	return a.PrintLine(u.Next())
}

// addInstallFlags adds the flags of the program. Its --user is --sandbox-user here.
func (a commands) addInstallFlags(cmd *cobra.Command, add func(*cobra.Command)) {
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
func (a commands) newUnit(cmd *cobra.Command, kind unit.Kind, i *installFlags) (unit.Unit, error) {
	u := unit.Unit{Kind: kind, User: i.user, Socket: i.socket, Home: "/"}
	var err error
	if u.Program, err = os.Executable(); err == nil {
		u.Program, err = filepath.EvalSymlinks(u.Program)
	}
	if err != nil {
		return u, fmt.Errorf("cannot tell where corral is: %w", err)
	}
	if u.Dir, err = a.StateDir(); err != nil {
		return u, err
	}
	if u.User {
		u.Home = "~"
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		given := f.Changed || len(f.Annotations[cmdline.EnvAnnotation]) > 0 && a.Getenv(f.Annotations[cmdline.EnvAnnotation][0]) != ""
		if len(f.Annotations[cmdline.GroupAnnotation]) == 0 || f.Annotations[cmdline.GroupAnnotation][0] == groupUnit || !given {
			return
		}
		u.Args = append(u.Args, unitArgs(f, a.Settings.Workspace.Dir)...)
	})
	file, err := a.ConfigFile()
	if file.Named { // what is relative to here means nothing there
		u.Args = append(u.Args, "--config", file.Path)
	}
	return u, err
}

// unitArgs are the arguments that set a flag to its value now.
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
	case cmdline.Optional:
		return []string{name, v.Seconds.String()}
	}
	if f.Value.Type() == "bool" {
		return []string{name + "=" + f.Value.String()}
	}
	return []string{name, f.Value.String()}
}

func (a commands) gatewayUninstall() *cobra.Command {
	return a.uninstallCommand(unit.Gateway, `Remove what corral gateway install wrote. A gateway that runs, its state and its
commands are left alone; what to do about them is said.`)
}

func (a commands) uninstallCommand(kind unit.Kind, long string) *cobra.Command {
	var user bool
	cmd := &cobra.Command{
		Use: "uninstall [flags]", Short: "Remove the systemd unit of a " + kind.Command, Long: long,
		Args: cmdline.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := unit.Dir(user, a.Getenv)
			if err != nil {
				return err
			}
			if err := unit.Remove(kind, dir, func(path string) error { return a.PrintLine("removed " + path) }); err != nil {
				return err
			}
			return a.PrintLine(kind.Stop(user))
		},
	}
	cmd.Flags().BoolVar(&user, "user", false, "the unit of this user")
	return cmd
}
