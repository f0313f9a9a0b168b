//go:build unix

package lookup_test

import (
	"errors"
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/pathenv/lookup"
)

// tree makes directories with programs p, files f that may not be executed,
// directories d and links, and returns where.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write := func(name string, mode os.FileMode) {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\necho \"$0\"\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("a/p", 0o755)
	write("a/f", 0o644)
	write("a/q", 0o644)
	write("a/d/p", 0o755)
	write("b/p", 0o755)
	write("b/q", 0o755)
	write("b/only-owner", 0o100)
	write("x y/$p", 0o755)
	link("../b/q", "a/linked")
	link("nowhere", "a/dangling")
	link("loop", "a/loop")
	link("b", "c")
	return root
}

func TestProgram(t *testing.T) {
	root := tree(t)
	tests := []struct {
		name, path, dir string
		want            string // relative to root
		err             error
	}{
		{name: "p", path: "R/a:R/b", want: "a/p"},
		{name: "p", path: "R/b:R/a", want: "b/p"},
		{name: "p", path: "R/none:R/b/", want: "b/p"},
		{name: "q", path: "R/a:R/b", want: "b/q"}, // not executable in a
		{name: "d", path: "R/a:R/b", err: lookup.ErrNotFound},
		{name: "f", path: "R/a:R/b", err: lookup.ErrNotExecutable},
		{name: "linked", path: "R/a", want: "a/linked"},
		{name: "dangling", path: "R/a", err: lookup.ErrNotFound},
		{name: "loop", path: "R/a", err: lookup.ErrNotFound},
		{name: "only-owner", path: "R/b", want: "b/only-owner"},
		{name: "$p", path: "R/x y", want: "x y/$p"},
		{name: "p", path: "R/c", want: "c/p"},
		{name: "p", path: "R/a/p:R/b", want: "b/p"}, // an entry that is a file
		{name: "p", path: "", err: lookup.ErrNotFound},
		{name: "p", path: "", dir: "R/a", err: lookup.ErrNotFound},
		{name: "p", path: ":", dir: "R/a", err: lookup.ErrNotFound}, // empty entries are no directory
		{name: "p", path: ".", dir: "R/a", want: "a/./p"},
		{name: "p", path: "b", dir: "R", want: "b/p"},
		{name: "p", path: "R/a:b", dir: "R", want: "a/p"},
		{name: "", path: "R/a", err: lookup.ErrNotFound},

		{name: "R/a/p", path: "R/b", want: "a/p"},
		{name: "./p", path: "R/b", dir: "R/a", want: "a/./p"},
		{name: "../b/q", dir: "R/a", want: "a/../b/q"},
		{name: "d/p", path: "R/a", dir: "R/b", err: lookup.ErrNotFound}, // not searched
		{name: "./f", dir: "R/a", err: lookup.ErrNotExecutable},
		{name: "./d", dir: "R/a", err: lookup.ErrNotExecutable},
		{name: "./none", dir: "R/a", err: lookup.ErrNotFound},
		{name: "./dangling", dir: "R/a", err: lookup.ErrNotFound},
		{name: "p/x", dir: "R/a", err: lookup.ErrNotFound},
		{name: "/dev/null", err: lookup.ErrNotExecutable},
	}
	for _, test := range tests {
		in := func(s string) string { return strings.ReplaceAll(s, "R/", root+"/") }
		dir := in(test.dir)
		if test.dir == "R" {
			dir = root
		}
		got, err := lookup.Program(in(test.name), in(test.path), dir)
		if test.err == nil {
			if want := root + "/" + test.want; got != want || err != nil {
				t.Errorf("Program(%q, %q, %q) = %q, %v; want %q", test.name, test.path, test.dir, got, err, want)
			}
			continue
		}
		if got != "" || !errors.Is(err, test.err) {
			t.Errorf("Program(%q, %q, %q) = %q, %v; want %v", test.name, test.path, test.dir, got, err, test.err)
		}
	}
}

// TestProgramAsBash runs the same by a real shell: the same file, or the same
// exit code.
func TestProgramAsBash(t *testing.T) {
	root := tree(t)
	path := root + "/a:" + root + "/b:b"
	for _, name := range []string{"p", "q", "d", "f", "linked", "dangling", "nosuch", "./p", "./a/p", "b/q", "../nosuch", "./a/f", "./a", "./a/dangling", "/dev/null", "''"} {
		cmd := exec.Command("/bin/bash", "--norc", "-c", "exec "+name)
		cmd.Dir, cmd.Env = root, []string{"PATH=" + path}
		out, runErr := cmd.Output()
		file, err := lookup.Program(strings.Trim(name, "'"), path, root)
		if err != nil {
			if code := cmd.ProcessState.ExitCode(); code != lookup.ExitCode(err) {
				t.Errorf("%s: exit code %d (%v), bash has %d", name, lookup.ExitCode(err), err, code)
			}
			continue
		}
		if runErr != nil {
			t.Errorf("%s: found %s, bash says %v", name, file, runErr)
			continue
		}
		ran := strings.TrimSpace(string(out))
		if !filepath.IsAbs(ran) {
			ran = filepath.Join(root, ran)
		}
		if filepath.Clean(file) != ran {
			t.Errorf("%s: found %s, bash ran %s", name, file, ran)
		}
	}
}

// TestOwnPathIsNotUsed: what this process could run is no program of a command
// with another PATH.
func TestOwnPathIsNotUsed(t *testing.T) {
	root := tree(t)
	t.Setenv("PATH", root+"/a")
	t.Chdir(root + "/a")
	if got, err := lookup.Program("p", root+"/none", root); !errors.Is(err, lookup.ErrNotFound) {
		t.Errorf("Program = %q, %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	for _, test := range []struct {
		err  error
		text string
		code int
	}{
		{&lookup.Error{Name: "x", Err: lookup.ErrNotFound}, "x: command not found", 127},
		{&lookup.Error{Name: "x", File: "/a/x", Err: lookup.ErrNotExecutable}, "x: not executable: /a/x", 126},
		{&lookup.Error{Name: "/a/x", File: "/a/x", Err: lookup.ErrNotExecutable}, "/a/x: not executable", 126},
	} {
		if test.err.Error() != test.text || lookup.ExitCode(test.err) != test.code {
			t.Errorf("%#v: %q and %d, want %q and %d", test.err, test.err, lookup.ExitCode(test.err), test.text, test.code)
		}
	}
}

// TestImports keeps the package small enough for the supervisor.
func TestImports(t *testing.T) {
	pkg, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"errors", "io/fs", "os", "strings"}
	for _, path := range pkg.Imports {
		if !slices.Contains(allowed, path) {
			t.Errorf("imports %q; only %q are allowed", path, allowed)
		}
	}
}
