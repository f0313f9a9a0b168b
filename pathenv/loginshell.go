package pathenv

// prependPrefix stands before the text of a command that a login shell reads.
// It runs after the profile, so it has the last word on PATH. The directories
// are in a variable and are never part of the text: nothing in them is
// expanded, whatever characters they have. It is one line without an end, so
// that the command keeps its line numbers, and it leaves no empty entry (the
// current directory) whichever of the two values is empty.
const prependPrefix = `PATH="${` + prependVariable + `:+$` + prependVariable + `${PATH:+:}}${PATH-}"; export PATH; unset ` + prependVariable + `; `

// LoginShell returns how /bin/sh runs text as a login shell, with dirs before
// the PATH that its profile leaves.
func (e Environment) LoginShell(text string, dirs []string) Plan {
	text, env := e.AfterProfile(text, dirs)
	return Plan{Args: []string{"/bin/sh", "-lc", text}, Env: env}
}

// AfterProfile returns the text and the environment for a shell that reads
// files of its own before it reads text, so that dirs come before the PATH
// that those leave: a login shell, or zsh, which reads .zshenv in any case.
// Without dirs both are as they were.
//
// What is added to the text is plain POSIX shell: dash, bash, busybox, ksh and
// zsh read it, fish and PowerShell do not.
func (e Environment) AfterProfile(text string, dirs []string) (string, Environment) {
	value := join(dirs, ":")
	if value == "" {
		return text, e
	}
	e.Vars = withVariable(e.Vars, prependVariable, value)
	return prependPrefix + text, e
}
