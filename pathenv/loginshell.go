package pathenv

import (
	"slices"
	"strings"
)

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

// withImagePath has a login shell in a container keep the directories of the image's PATH
// where its profile sets PATH anew: those before the first directory of ContainerPath come
// before what it sets, the others behind it. A profile that only adds to PATH is left alone.
func (p Plan) withImagePath() Plan {
	system := exactDirs(ContainerPath)
	var before, behind []string
	dirs := &before
	for _, entry := range p.Env.Path {
		switch {
		case entry.Origin != OriginImage:
		case slices.Contains(system, entry.Dir):
			dirs = &behind
		default:
			*dirs = append(*dirs, entry.Dir)
		}
	}
	last := len(p.Args) - 1
	restore := func(variable string, dirs []string, path string) {
		if len(dirs) > 0 {
			p.Env.Vars = withVariable(p.Env.Vars, variable, strings.Join(dirs, ":"))
			p.Args[last] = `case ":${PATH-}:" in *":${` + variable + `-}:"*) ;; *) PATH="` + path + `"; export PATH ;; esac; unset ` + variable + "; " + p.Args[last]
		}
	}
	restore(beforeVariable, before, "${"+beforeVariable+":+$"+beforeVariable+"${PATH:+:}}${PATH-}")
	restore(behindVariable, behind, "${PATH-}${"+behindVariable+":+${PATH:+:}$"+behindVariable+"}")
	return p
}
