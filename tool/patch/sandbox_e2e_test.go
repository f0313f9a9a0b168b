//go:build e2e

package patch

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
)

// newSandbox returns a sandbox, and its workspace on this machine.
func newSandbox(t *testing.T, driver sandbox.Driver, access sandbox.Access) (*sandbox.Executor, string) {
	t.Helper()
	work := testdir.New(t)
	if err := os.Chown(work, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	e, err := sandbox.New(sandbox.Config{
		Engine: enginetest.New(t), StateDir: filepath.Join(testdir.New(t), "state"), Image: images.Busybox,
		WardenPath: wardenbintest.Build(t), Driver: driver, Workspace: sandbox.Workspace{Dir: work, Access: access}, Ephemeral: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	dir, err := e.HostWorkspace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e, dir
}

// shell runs a command in the sandbox, as an agent would.
func shell(t *testing.T, e corral.Executor, text string) string {
	t.Helper()
	r, err := runner.Run(t.Context(), e, corral.Command{Shell: text}, runner.Options{})
	if err != nil || !r.Exit.Success() {
		t.Fatalf("%s: %v, %v: %s", text, err, r.Exit, r.Output)
	}
	return r.Stdout.String()
}

const inSandbox = `printf 'a\nb\n' > a.txt; printf '#!/bin/sh\necho old\n' > run.sh; chmod 755 run.sh; echo gone > gone.txt; ln -s /etc/passwd out`

func sandboxPatch() string {
	return patchOf("*** Update File: a.txt", "*** Move to: new/place/a.txt", "@@", " a", "-b", "+B", "*** Update File: /workspace/run.sh", "@@", "-echo old", "+echo new",
		"*** Delete File: gone.txt", "*** Delete File: out", "*** Add File: new/it's $HOME.txt", "+x")
}

// Commands find the patched files, own them, and can change them.
func checkSandbox(t *testing.T, e corral.Executor, r Result) {
	t.Helper()
	if want := "Success. Updated the following files:\nA new/it's $HOME.txt\nM new/place/a.txt\nM run.sh\nD gone.txt\nD out"; r.Text() != want {
		t.Fatalf("%+v", r)
	}
	got := shell(t, e, `cat new/place/a.txt "new/it's \$HOME.txt"; ./run.sh; echo more >> new/place/a.txt; touch new/place/another; ls -A | sort; find . ! -user "$(id -u)"`)
	if want := "a\nB\nx\nnew\nnew\nrun.sh\n"; got != want {
		t.Errorf("%q", got)
	}
}

// Workspaces that are mounted from this machine are patched from here.
func TestSandboxMounted(t *testing.T) {
	for _, access := range []sandbox.Access{sandbox.AccessNone, sandbox.AccessReadWrite} {
		t.Run(string(access), func(t *testing.T) {
			e, dir := newSandbox(t, sandbox.DriverFDs, access)
			shell(t, e, inSandbox)
			tool := New(Config{Target: Directory{Path: dir, As: sandbox.Workdir}})
			checkSandbox(t, e, tool.Call(t.Context(), callArguments(t, sandboxPatch())))
			r := tool.Call(t.Context(), callArguments(t, patchOf("*** Add File: "+dir+"/x", "+x")))
			if r.Status != StatusDenied || !strings.Contains(r.Text(), "Path escapes sandbox root (/workspace)") {
				t.Errorf("%+v", r)
			}
			// A journal that a command made is ignored.
			shell(t, e, `mkdir -m 700 .corral-patch-forged; 
				printf '{"version":1,"changes":[{"name":"run.sh","new":"%s"}]}' "$(sha256sum < run.sh | cut -c1-64)" > .corral-patch-forged/record`)
			r = tool.Call(t.Context(), callArguments(t, patchOf("*** Add File: y", "+y")))
			if r.Failed() || shell(t, e, "ls run.sh .corral-patch-forged") != "run.sh\n\n.corral-patch-forged:\nrecord\n" {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestSandboxReadOnly(t *testing.T) {
	e, dir := newSandbox(t, sandbox.DriverFDs, sandbox.AccessReadOnly)
	for _, target := range []Target{Directory{Path: dir, As: sandbox.Workdir, ReadOnly: true}, NewCommands(e, sandbox.Workdir)} {
		r := New(Config{Target: target}).Call(t.Context(), callArguments(t, patchOf("*** Add File: x", "+x")))
		if r.Status != StatusDenied || !strings.Contains(strings.ToLower(r.Text()), "read-only") {
			t.Errorf("%+v", r)
		}
	}
	if files := snapshot(t, dir); len(files) > 0 {
		t.Errorf("%q", files)
	}
}

// A private workspace on another machine is patched by commands in the container, with
// every driver.
func TestSandboxCommands(t *testing.T) {
	for _, driver := range []sandbox.Driver{sandbox.DriverFDs, sandbox.DriverFrames, sandbox.DriverExec} {
		t.Run(string(driver), func(t *testing.T) {
			e, dir := newSandbox(t, driver, sandbox.AccessNone)
			shell(t, e, inSandbox)
			target := NewCommands(e, sandbox.Workdir)
			before := snapshot(t, dir)
			bad := New(Config{Target: target}).Call(t.Context(), callArguments(t, patchOf("*** Delete File: a.txt", "*** Update File: run.sh", "@@", "-none", "+x")))
			if d := differs(snapshot(t, dir), before); d != "" || bad.Match == nil {
				t.Errorf("%+v\n%s", bad, d)
			}
			checkSandbox(t, e, New(Config{Target: target}).Call(t.Context(), callArguments(t, sandboxPatch())))
		})
	}
}

// The gateway dies at any step, and its successor undoes the patch.
func TestSandboxDeath(t *testing.T) {
	e, dir := newSandbox(t, sandbox.DriverFDs, sandbox.AccessNone)
	seen := map[string]int{}
	for step := 1; ; step++ {
		shell(t, e, "rm -rf ./* .corral*; "+inSandbox)
		before := snapshot(t, dir)
		steps, died := 0, false
		f := faulty{NewCommands(e, sandbox.Workdir), func(n int) error {
			if died = n >= step; died {
				return errDead
			}
			return nil
		}, &steps, nil}
		New(Config{Target: f}).Call(t.Context(), callArguments(t, sandboxPatch()))
		if !died {
			break
		}
		if _, err := Recover(t.Context(), NewCommands(e, sandbox.Workdir)); err != nil {
			t.Fatal(err)
		}
		got := snapshot(t, dir)
		switch names := slices.Sorted(maps.Keys(got)); {
		case differs(got, before) == "":
			seen["none"]++
		case strings.Join(names, " ") == "new new/it's $HOME.txt new/place new/place/a.txt run.sh":
			seen["all"]++
		default:
			t.Errorf("step %d:\n%s", step, differs(got, before))
		}
	}
	if seen["none"] < 10 || seen["all"] < 3 {
		t.Errorf("%v", seen)
	}
}
