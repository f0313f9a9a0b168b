// Package built has the programs of this module for tests, built from the sources.
// All tests of a run share them: each is linked once, into bin/test of the module,
// and the go command sees whether it is still what the sources make.
//
// The go command runs a test again if a file of the module changed that the test opened
// or asked about. So the results of tests that use a program are cached: that file keeps
// its time as long as its content is the same, and the sources of the program are looked at.
package built

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/state/filelock"
	"github.com/corral-exec/corral/internal/warden/wardenbin"
)

const module = "github.com/corral-exec/corral/"

// start is where the test binary was started: its package's directory, from which the
// module is found also after a test changed directory.
var start, startErr = os.Getwd()

var programs = struct {
	sync.Mutex
	done map[string]error
}{done: map[string]error{}}

// Program is the path of the static program of a package, such as cmd/corral. It is
// not to be changed or removed; see Copy.
func Program(t testing.TB, pkg string) string {
	t.Helper()
	file, err := File(pkg)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Copy writes the program of a package to a file that anyone may execute.
func Copy(t testing.TB, pkg, file string) {
	t.Helper()
	if err := CopyTo(pkg, file); err != nil {
		t.Fatal(err)
	}
}

// CopyTo is Copy for a TestMain, which has no t.
func CopyTo(pkg, file string) error {
	from, err := File(pkg)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := wardenbin.WriteExecutable(file, data); err != nil {
		return err
	}
	return os.Chmod(file, 0o755) // its owner may write to it, as to most programs
}

// File is Program for a TestMain, which has no t.
func File(pkg string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "test")
	file := filepath.Join(dir, filepath.Base(pkg))
	programs.Lock()
	defer programs.Unlock()
	err, done := programs.done[pkg]
	if !done {
		err = build(dir, pkg, file)
		programs.done[pkg] = err
	}
	return file, err
}

// patience is how long a test waits for others that build.
const patience = 5 * time.Minute

func build(dir, pkg, file string) error {
	temp := filepath.Join(dir, "tmp")
	for _, d := range []string{filepath.Dir(dir), dir, temp} { // os.MkdirAll would ask about temp, which changes
		if err := os.Mkdir(d, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lock, err := filelock.Open(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = start
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOARCH=", "GOTMPDIR="+temp)
		if name := filepath.Base(pkg); name != "corral" && name != "testprog" {
			cmd.Env = append(cmd.Env, "GOOS=linux") // it is for sandboxes
		}
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("cannot build %s: %w\n%s", pkg, err, said.String())
		}
		return string(out), err
	}
	before, at := content(file)
	if _, err := run("build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, module+pkg); err != nil {
		return err
	}
	if after, _ := content(file); after == before {
		if err := os.Chtimes(file, at, at); err != nil {
			return err
		}
	}
	names, err := run("list", "-deps", "-f", sources, module+pkg)
	for name := range strings.Lines(names) {
		_, serr := os.Stat(strings.TrimSuffix(name, "\n"))
		err = errors.Join(err, serr)
	}
	return err
}

// sources has the go command list the files of this module that make a program, a line each.
const sources = `{{with .Module}}{{if .Main}}{{.GoMod}}
{{range $.GoFiles}}{{$.Dir}}/{{.}}
{{end}}{{range $.SFiles}}{{$.Dir}}/{{.}}
{{end}}{{range $.EmbedFiles}}{{$.Dir}}/{{.}}
{{end}}{{end}}{{end}}`

// content is the digest of a file, and its time; neither if there is none.
func content(file string) (sum [sha256.Size]byte, at time.Time) {
	data, err := os.ReadFile(file)
	info, serr := os.Stat(file)
	if err != nil || serr != nil {
		return sum, at
	}
	return sha256.Sum256(data), info.ModTime()
}

// Root is the directory with go.mod.
func Root() (string, error) {
	if startErr != nil {
		return "", startErr
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		switch {
		case err == nil:
			return dir, nil
		case !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir):
			return "", fmt.Errorf("there is no go.mod above %s: %w", start, err)
		}
	}
}
