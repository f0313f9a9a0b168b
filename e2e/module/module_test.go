//go:build e2e

// Package module_test fetches Corral as its users do: as a Go module of a proxy,
// which has nothing but what is in git. A program of a few lines, and the program
// corral, then run a command on this machine and in a sandbox.
package module_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var version = module.Version{Path: "github.com/corral-exec/corral", Version: "v0.0.1"}

func TestModule(t *testing.T) {
	enginetest.New(t)
	u := newUser(t)

	t.Run("a program", func(t *testing.T) {
		dir := filepath.Join(u.home, "agent")
		copyFile(t, "testdata/program/main.go", filepath.Join(dir, "main.go"))
		u.run(t, dir, "go", "mod", "init", "example.com/agent")
		u.run(t, dir, "go", "get", version.Path+"@"+version.Version)
		u.run(t, dir, "go", "mod", "tidy")
		u.run(t, dir, "go", "build", "-o", "agent", ".")
		got := u.run(t, dir, "./agent", images.Busybox)
		want := "gateway: exit code 0: Linux\nsandbox: exit code 0: Linux\n"
		if got != want {
			t.Errorf("the program says\n%swant\n%s", got, want)
		}
	})

	t.Run("corral", func(t *testing.T) {
		u.run(t, u.home, "go", "install", version.Path+"/cmd/corral@"+version.Version)
		corral := filepath.Join(u.home, "bin", "corral")
		for _, host := range []string{"gateway", "sandbox"} {
			got := u.run(t, u.home, corral, "exec", "-q", "--host", host, "echo $((6 * 7))")
			if got != "42\n" {
				t.Errorf("corral exec --host %s says %q", host, got)
			}
		}
		if out := u.run(t, u.home, corral, "version"); !strings.Contains(out, version.Version) {
			t.Errorf("corral version says %q, want %s in it", out, version.Version)
		}
		u.run(t, u.home, "go", "install", version.Path+"/cmd/corral-escape@"+version.Version)
		if out := u.run(t, u.home, corral, "doctor", "--deep"); !strings.Contains(out, "\nok    escape ") {
			t.Errorf("with corral-escape beside it, corral doctor --deep says %q", out)
		}
	})
}

// A user has a home of their own, the module from a proxy, and no checkout.
type user struct {
	home string
	env  []string
}

func newUser(t *testing.T) user {
	home := testdir.New(t)
	proxy := filepath.Join(home, "proxy")
	serve(t, proxy)
	// The other modules come from where they are already, or from the network.
	// They are in go.sum, so no checksum database has to be asked.
	u := user{home: home}
	for _, kv := range [][2]string{
		{"GOPROXY", "file://" + proxy + ",file://" + goEnv(t, "GOMODCACHE") + "/cache/download," + goEnv(t, "GOPROXY")},
		{"GOSUMDB", "off"},
		{"GOMODCACHE", filepath.Join(home, "mod")},
		{"GOCACHE", goEnv(t, "GOCACHE")},
		{"GOBIN", filepath.Join(home, "bin")},
		{"GOFLAGS", "-modcacherw -trimpath"}, // the packages that make build has built are not built again
		{"GOWORK", "off"},
		{"CGO_ENABLED", "0"},
		{"HOME", home},
		{"XDG_CONFIG_HOME", filepath.Join(home, "config")},
		{"XDG_STATE_HOME", filepath.Join(home, "state")},
		{"XDG_CACHE_HOME", filepath.Join(home, "cache")},
		{"PATH", os.Getenv("PATH")},
		{"TMPDIR", os.TempDir()},
		{"CORRAL_IMAGE", images.Busybox},
		{"DOCKER_HOST", os.Getenv("DOCKER_HOST")},
	} {
		u.env = append(u.env, kv[0]+"="+kv[1])
	}
	return u
}

// run runs a program in dir, which must succeed, and returns its output.
func (u user) run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = dir, append(u.env, "PWD="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

// serve makes dir the directory of a module proxy that has this repository: what
// is committed, and the changes of files that git knows.
func serve(t *testing.T, dir string) {
	t.Helper()
	root := strings.TrimSpace(output(t, "git", "rev-parse", "--show-toplevel"))
	revision := strings.TrimSpace(output(t, "git", "-C", root, "-c", "user.name=test", "-c", "user.email=test@localhost", "stash", "create"))
	if revision == "" { // nothing has changed
		revision = "HEAD"
	}
	at := filepath.Join(dir, filepath.FromSlash(version.Path), "@v", version.Version)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	committed := testdir.New(t)
	tree := filepath.Join(committed, "tree.tar")
	output(t, "git", "-C", root, "archive", "-o", tree, revision)
	output(t, "tar", "-C", committed, "-xf", tree)
	if err := os.Remove(tree); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(at + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(zip.CreateFromDir(f, version, committed), f.Close())
	if err != nil {
		t.Fatalf("no module can be made of this repository: %v", err)
	}
	copyFile(t, filepath.Join(root, "go.mod"), at+".mod")
	for name, text := range map[string]string{at + ".info": `{"Version":"` + version.Version + `"}`, filepath.Join(filepath.Dir(at), "list"): version.Version + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(output(t, "go", "env", name))
}

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", program, strings.Join(args, " "), err)
	}
	return string(out)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
