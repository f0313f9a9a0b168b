package pathenv

// prependPrefix is put before the text of a command for a login shell. It runs after
// the profile, so it has the last word on PATH. The directories are in a variable and
// not in the text, so the shell expands nothing in them. It has no newline, so the
// command keeps its line numbers. It leaves no empty entry (the current directory),
// even if one of the two values is empty.
const prependPrefix = `PATH="${` + prependVariable + `:+$` + prependVariable + `${PATH:+:}}${PATH-}"; export PATH; unset ` + prependVariable + `; `

// LoginShell returns how /bin/sh runs text as a login shell, with dirs before
// the PATH that its profile leaves.
func (e Environment) LoginShell(text string, dirs []string) Plan {
	text, env := e.AfterProfile(text, dirs)
	return Plan{Args: []string{"/bin/sh", "-lc", text}, Env: env}
}

// AfterProfile returns the text and the environment for a shell that reads its own
// files before text: a login shell, or zsh, which always reads .zshenv. With them,
// dirs come before the PATH that those files set. Without dirs both are unchanged.
//
// The addition to the text is plain POSIX shell: dash, bash, busybox, ksh and zsh read
// it, fish and PowerShell do not.
func (e Environment) AfterProfile(text string, dirs []string) (string, Environment) {
	value := join(dirs, ":")
	if value == "" {
		return text, e
	}
	e.Vars = withVariable(e.Vars, prependVariable, value)
	return prependPrefix + text, e
}
