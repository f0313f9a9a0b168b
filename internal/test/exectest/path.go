package exectest

import (
	"strings"

	"github.com/corral-exec/corral"
)

var pathCases = []Case{
	{Name: "path/prepend", Doc: "PathPrepend goes before PATH, in the order given, also after a login profile has set it; programs in it are found.", Func: pathPrepend},
	{Name: "path/prepend-first", Doc: "A program in PathPrepend hides one of the same name further back.", Func: pathPrependFirst},
	{Name: "path/prepend-literal", Doc: "PathPrepend is not expanded by a shell: dollars, quotes and spaces are part of the name.", Func: pathPrependLiteral},
	{Name: "path/env", Doc: "PATH in the call's Env is used to find programs, or refused by Start where the target says so; it is never ignored.", Func: pathEnv},
	{Name: "path/not-ours", Doc: "The PATH of the program that embeds the executor finds nothing.", Func: pathNotOurs, serial: true},
	{Name: "path/relative-program", Doc: "A program with a slash in its name is relative to the command's working directory.", Func: pathRelativeProgram},
}

// script makes an executable that prints its own text.
func (t *T) script(path, text string) {
	t.Helper()
	t.ok(corral.Command{
		Args: []string{"sh", "-c", `mkdir -p "${1%/*}" && printf '#!/bin/sh\necho %s\n' "$2" >"$1" && chmod 755 "$1"`, "sh", path, text},
	})
}

func pathPrepend(t *T) {
	dir := t.dir()
	t.script(dir+"/b/only-there", "found")
	prepend := []string{dir + "/a", dir + "/b"}
	for _, cmd := range []corral.Command{{Args: []string{"only-there"}}, {Shell: "only-there"}} {
		cmd.PathPrepend = prepend
		equal(t, brief(cmd), t.ok(cmd), "found\n")
	}
	for _, test := range []struct {
		cmd  corral.Command
		base string
	}{
		{t.prog("env"), t.Target.BaseEnv["PATH"]},
		{t.sh("$PROG env"), overlay(t.Target.BaseEnv, t.Target.ShellEnv)["PATH"]},
	} {
		test.cmd.PathPrepend = prepend
		equal(t, "PATH", t.environ(t.ok(test.cmd))["PATH"], strings.Join(append(prepend, test.base), ":"))
	}
}

func pathPrependFirst(t *T) {
	dir := t.dir()
	t.script(dir+"/a/uname", "first")
	t.script(dir+"/a/twice-there", "first")
	t.script(dir+"/b/twice-there", "second")
	for _, cmd := range []corral.Command{
		{Args: []string{"uname"}}, // not of a shell, which may have its own
		{Args: []string{"twice-there"}},
		{Shell: "twice-there"},
	} {
		cmd.PathPrepend = []string{dir + "/a", dir + "/b"}
		equal(t, brief(cmd), t.ok(cmd), "first\n")
	}
}

func pathPrependLiteral(t *T) {
	base := t.dir()
	for _, name := range []string{"$HOME", "$(touch pwned)", "`touch pwned`", "a b", `q"uo'te`, `back\slash`, "new\nline", "日本"} {
		dir := base + "/" + name
		t.script(dir+"/only-there", "found")
		for _, cmd := range []corral.Command{{Args: []string{"only-there"}}, {Shell: "only-there"}} {
			cmd.PathPrepend = []string{dir}
			cmd.Dir = base
			equal(t, brief(cmd)+" in "+name, t.ok(cmd), "found\n")
		}
	}
	if t.exists(base + "/pwned") {
		t.Error("a shell ran what is in the name of a directory")
	}
}

func pathEnv(t *T) {
	dir := t.dir()
	t.script(dir+"/only-there", "found")
	for _, cmd := range []corral.Command{{Args: []string{"only-there"}}, {Shell: "only-there"}} {
		cmd.Env = map[string]string{"PATH": dir + ":" + t.Target.BaseEnv["PATH"]}
		if kind := t.Target.RefusesEnvPath; kind != nil {
			_, err := t.X.Start(t.Ctx, cmd)
			t.isError("Start with PATH in Env", err, kind)
			continue
		}
		equal(t, brief(cmd), t.ok(cmd), "found\n")
	}
}

func pathNotOurs(t *T) {
	t = t.on(t.fresh())
	dir := t.dir()
	t.script(dir+"/only-there", "found")
	t.Setenv("PATH", dir)
	for _, cmd := range []corral.Command{{Args: []string{"only-there"}}, {Shell: "only-there"}} {
		if exit := t.run(cmd).exit; exit.Code != 127 {
			t.Errorf("%s: %v; it was found on the PATH of this program", brief(cmd), exit)
		}
	}
	equal(t, "true", t.run(corral.Command{Args: []string{"true"}}).exit.Code, 0)
}

func pathRelativeProgram(t *T) {
	dir := t.dir()
	t.script(dir+"/bin/prog", "found")
	for _, cmd := range []corral.Command{
		{Args: []string{"./prog"}, Dir: dir + "/bin"},
		{Args: []string{"bin/prog"}, Dir: dir},
		{Shell: "./prog", Dir: dir + "/bin"},
	} {
		equal(t, brief(cmd), t.ok(cmd), "found\n")
	}
	equal(t, "the exit code of prog, which is not on PATH", t.run(corral.Command{Args: []string{"prog"}, Dir: dir + "/bin"}).exit.Code, 127)
}
