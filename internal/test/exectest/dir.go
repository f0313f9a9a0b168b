package exectest

import (
	"strings"

	"github.com/corral-exec/corral"
)

var dirCases = []Case{
	{Name: "dir/default", Doc: "Without Dir a command runs in the workspace.", Func: dirDefault},
	{Name: "dir/relative", Doc: "A relative Dir is relative to the workspace.", Func: dirRelative},
	{Name: "dir/absolute", Doc: "An absolute Dir is taken as it is, whatever characters are in its name.", Func: dirAbsolute},
	{Name: "dir/missing", Doc: "A Dir that does not exist, or is a file, is ErrDir from Start, and nothing runs.", Func: dirMissing},
	{Name: "dir/forbidden", Doc: "A Dir that the command's user may not enter is ErrDir; root may enter it.", Func: dirForbidden},
	{Name: "dir/checked-first", Doc: "With a bad Dir and a missing program the error is ErrDir.", Func: dirCheckedFirst},
}

// cwd checks where a command runs, what Info says of it, and the shell's view.
func (t *T) cwd(dir, want string) {
	t.Helper()
	for _, cmd := range []corral.Command{t.prog("cwd"), t.sh("pwd -P")} {
		cmd.Dir = dir
		p := t.start(cmd)
		equal(t, "the working directory", t.finish(p).stdout, want+"\n")
		equal(t, "Info.Dir", p.Info().Dir, want)
	}
}

func dirDefault(t *T) { t.cwd("", t.Target.Workspace) }

func dirRelative(t *T) {
	dir := t.dir()
	t.ok(t.sh("mkdir %s/sub", dir))
	t.cwd(strings.TrimPrefix(dir, t.Target.Workspace+"/")+"/sub", dir+"/sub")
	t.cwd(".", t.Target.Workspace)
}

func dirAbsolute(t *T) {
	t.cwd("/", "/")
	base := t.dir()
	for _, name := range []string{"plain", "a b", "$HOME", `q"uo'te`, "-dash", "日本"} {
		t.ok(corral.Command{Args: []string{"mkdir", base + "/" + name}})
		t.cwd(base+"/"+name, base+"/"+name)
	}
}

// badDir starts cmd with a bad directory; no trace of it may be left.
func (t *T) badDir(dir string, cmd corral.Command) {
	t.Helper()
	cmd.Dir, cmd.ID = dir, corral.NewID()
	p, err := t.X.Start(t.Ctx, cmd)
	if err == nil {
		t.Cleanup(func() { t.dispose(p) })
	}
	t.isError("Start in "+dir, err, corral.ErrDir)
	_, err = t.X.Attach(t.Ctx, cmd.ID)
	t.isError("Attach to what was not started", err, corral.ErrNotFound)
}

func dirMissing(t *T) {
	dir := t.dir()
	t.ok(t.sh("echo data > %s/file", dir))
	for _, bad := range []string{dir + "/missing", dir + "/file", dir + "/file/sub", "no-such-directory"} {
		t.badDir(bad, t.sh("touch %s/ran", dir))
		t.badDir(bad, corral.Command{Args: []string{"touch", dir + "/ran"}})
	}
	if t.exists(dir + "/ran") {
		t.Error("it ran")
	}
}

func dirForbidden(t *T) {
	dir := t.dir()
	t.ok(t.sh("mkdir -m 0 %s/closed", dir))
	ids := strings.Fields(t.ok(t.prog("ids")))
	if ids[2] == "0" {
		t.cwd(dir+"/closed", dir+"/closed")
		return
	}
	t.badDir(dir+"/closed", t.sh("true"))
}

func dirCheckedFirst(t *T) {
	t.badDir(t.Target.Workspace+"/no-such-directory", corral.Command{Args: []string{"no-such-program"}})
}
