// Package unit writes the systemd units that keep a gateway or a node running.
package unit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/state/atomicfile"
)

// A Kind is a program of Corral's that systemd keeps running.
type Kind struct {
	Name        string // of the files, without their ending
	Command     string // of corral
	description string
	after       string // what of the machine it starts after
}

// The programs.
var (
	Gateway = Kind{"corral", "gateway", "Corral gateway: runs the commands of agents", "network.target docker.service"}
	Node    = Kind{"corral-node", "node", "Corral node: runs commands for a gateway", "network.target"}
)

// A Unit is what is to be known for the systemd units of one.
type Unit struct {
	Kind
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
func (u Unit) service() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("[Unit]")
	line("Description=%s", u.description)
	line("Documentation=https://github.com/corral-exec/corral")
	if !u.User {
		line("After=%s", u.after)
	}
	if u.Socket {
		line("Requires=%s.socket", u.Name)
	}
	line("")
	line("[Service]")
	line("Type=notify")
	line("ExecStart=%s", quote(append([]string{u.Program, u.Command, "--state-dir", u.Dir}, u.Args...)))
	if !u.User {
		line("User=root") // also so that HOME and SHELL are set
	}
	line("WorkingDirectory=%s", escapePercent(u.Home))
	line("")
	line("# A restart ends the %s alone. Commands, and the wardens that keep them, go", u.Command)
	line("# on; the next %s has them again, with all of their output.", u.Command)
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
func (u Unit) socket() string {
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

// quote writes a command line as systemd reads it.
func quote(args []string) string {
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

// A File is a unit and where it belongs.
type File struct{ Path, Text string }

// Files are those of a unit, the service first.
func (u Unit) Files(dir string) []File {
	files := []File{{filepath.Join(dir, u.Name+".service"), u.service()}}
	if u.Socket {
		files = append(files, File{filepath.Join(dir, u.Name+".socket"), u.socket()})
	}
	return files
}

// Dir is where systemd looks for units.
func Dir(user bool, getenv func(string) string) (string, error) {
	if !user {
		return "/etc/systemd/system", nil
	}
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "systemd", "user"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "systemd", "user"), nil
	}
	return "", corral.Errorf(corral.ErrInvalid, "set HOME", "no directory for this user's units: HOME is not set")
}

// Write writes the files of a unit, and tells of each.
func (u Unit) Write(dir string, wrote func(path string) error) error {
	if runtime.GOOS != "linux" {
		return corral.Errorf(errors.ErrUnsupported, "have the service manager of this machine start: corral "+u.Command, "systemd is of Linux")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return noUnits(err)
	}
	for _, f := range u.Files(dir) {
		if err := atomicfile.Write(f.Path, []byte(f.Text), atomicfile.Options{Mode: 0o644}); err != nil {
			return noUnits(err)
		}
		if err := wrote(f.Path); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes the files of a program's units, and tells of each.
func Remove(kind Kind, dir string, gone func(path string) error) error {
	removed := false
	for _, f := range (Unit{Kind: kind, Socket: true}).Files(dir) {
		err := os.Remove(f.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return noUnits(err)
		}
		removed = true
		if err := gone(f.Path); err != nil {
			return err
		}
	}
	if !removed {
		return corral.Errorf(corral.ErrNotFound, "corral "+kind.Command+" install writes one; --user says whose", "there is no unit of a %s in %s", kind.Command, dir)
	}
	return nil
}

func noUnits(err error) error {
	return corral.Errorf(corral.ErrDenied, "run it as root, or with --user for a unit of your own", "cannot write the unit: %w", err)
}

// Text is files for people to look at.
func Text(files []File) string {
	texts := make([]string, len(files))
	for i, f := range files {
		texts[i] = fmt.Sprintf("# %s\n%s", f.Path, f.Text)
	}
	return strings.Join(texts, "\n")
}

func systemctl(user bool) string {
	if user {
		return "systemctl --user"
	}
	return "systemctl"
}

// Next says how to start what was written.
func (u Unit) Next() string {
	units := u.Name
	if u.Socket {
		units = u.Name + ".socket " + u.Name
	}
	next := fmt.Sprintf("To start it now and with the machine:\n  %[1]s daemon-reload\n  %[1]s enable --now %[2]s", systemctl(u.User), units)
	if u.User {
		next += "\nTo have it run while nobody is logged in:\n  loginctl enable-linger"
	}
	return next
}

// Stop says how to stop a program that runs, when its units are gone.
func (k Kind) Stop(user bool) string {
	return fmt.Sprintf("To stop a %[3]s that runs:\n  %[1]s stop %[2]s; %[1]s daemon-reload", systemctl(user), k.Name, k.Command)
}
