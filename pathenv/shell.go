package pathenv

import (
	"cmp"
	"runtime"
	"strings"

	"github.com/corral-exec/corral/pathenv/lookup"
)

// ShellOptions are the inputs for the choice of a shell.
type ShellOptions struct {
	Getenv  func(string) string // the daemon's environment
	Path    string              // where bash, sh and PowerShell are looked for
	Profile Profile
	GOOS    string // empty: the one this program was built for

	// Executable reports whether a file can be run; nil asks the file system.
	Executable func(file string) bool
}

// Shell returns the shell of the gateway, as the arguments before a command's
// text.
//
// Profile exec: $SHELL -c. Fish reads many scripts wrongly; if $SHELL is fish, the
// shell is bash from Path, else sh, else fish after all. Without a $SHELL, or with one
// that refuses logins (nologin, false), it is sh. On Windows it is the newest
// PowerShell.
//
// The run_shell_command profiles: bash -c, on Windows cmd.exe /c.
func Shell(o ShellOptions) []string {
	executable := o.Executable
	if executable == nil {
		executable = lookup.Executable
	}
	s := shellChooser{getenv: o.Getenv, executable: executable}
	goos := cmp.Or(o.GOOS, runtime.GOOS)
	s.dirs, s.slash = split(o.Path, listSeparator(goos)), "/"
	if goos == "windows" {
		s.slash = `\`
	}
	forScripts := o.Profile == ProfileQwen || o.Profile == ProfileAsimi
	switch {
	case goos == "windows" && forScripts:
		// /d: no commands from the registry first. /s: quotes in the text
		// stay as they are.
		return []string{"cmd.exe", "/d", "/s", "/c"}
	case goos == "windows":
		return []string{s.powerShell(), "-NoProfile", "-NonInteractive", "-Command"}
	case forScripts:
		return []string{s.onPath("bash", "bash"), "-c"}
	}
	return []string{s.posix(), "-c"}
}

type shellChooser struct {
	getenv     func(string) string
	executable func(string) bool
	dirs       []string
	slash      string
}

func (s shellChooser) posix() string {
	shell := strings.TrimSpace(s.getenv("SHELL"))
	switch shell[strings.LastIndexByte(shell, '/')+1:] {
	case "", "nologin", "false":
		return "sh"
	case "fish":
		return s.onPath("bash", s.onPath("sh", shell))
	}
	return shell
}

func (s shellChooser) powerShell() string {
	for _, variable := range []string{"ProgramFiles", "ProgramW6432"} {
		if root := s.getenv(variable); root != "" {
			if file := root + `\PowerShell\7\pwsh.exe`; s.executable(file) {
				return file
			}
		}
	}
	if file := s.onPath("pwsh.exe", ""); file != "" {
		return file
	}
	if root := s.getenv("SystemRoot"); root != "" {
		if file := root + `\System32\WindowsPowerShell\v1.0\powershell.exe`; s.executable(file) {
			return file
		}
	}
	return "powershell.exe"
}

// onPath returns the file of name on PATH, or otherwise if there is none. Relative entries
// do not count: a shell must not come from the workspace.
func (s shellChooser) onPath(name, otherwise string) string {
	for _, dir := range s.dirs {
		file := dir + s.slash + name
		if absolute := s.slash == `\` || strings.HasPrefix(dir, "/"); absolute && s.executable(file) {
			return file
		}
	}
	return otherwise
}
