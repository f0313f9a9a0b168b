//go:build e2e

package docker_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/sandboxtest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
)

// newSnapshotSandbox opens a sandbox with snapshots of the login profile, and its log.
func newSnapshotSandbox(t *testing.T, driver sandbox.Driver) (*sandbox.Executor, *logtest.Log) {
	t.Helper()
	enginetest.New(t)
	eng, err := docker.New(docker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := &logtest.Log{}
	x, err := sandbox.New(sandbox.Config{
		Engine: eng, StateDir: testdir.New(t), Image: images.Busybox, Driver: driver, WardenPath: wardenbintest.Build(t), Ephemeral: true,
		Environment: sandbox.Environment{Snapshot: true, Variables: map[string]string{"GIVEN": "configured"}},
		Log:         slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			fmt.Fprintln(os.Stderr, log)
		}
	})
	return x, log
}

func text(t *testing.T, x corral.Executor, cmd corral.Command) string {
	t.Helper()
	cmd.MergeStderr = true
	r, err := runner.Run(t.Context(), x, cmd, runner.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(r.Stdout.String())
}

const isLogin = sandboxtest.IsLogin + ` && echo login || echo snapshot`

// TestLoginSnapshot changes the profile, and what it depends on, between commands.
func TestLoginSnapshot(t *testing.T) {
	for _, driver := range []sandbox.Driver{sandbox.DriverFDs, sandbox.DriverFrames} {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			x, log := newSnapshotSandbox(t, driver)
			profile := func(text string) {
				t.Helper()
				write(t, x, ".profile", text)
			}
			profile("export A=1\nexport B=\"$GIVEN:b\"\n[ -e flag ] && export FLAG=1 || :\n")
			sandboxtest.WaitForSnapshot(t, x)
			const show = `echo "$A $B ${FLAG-no} ${C-no}"; env | grep -c "^CORRAL_PROCESS=$CORRAL_PROCESS$"`
			want := func(cmd corral.Command, want string) {
				t.Helper()
				if got := text(t, x, cmd); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
			want(corral.Command{Shell: show}, "1 configured:b no no\n1")
			// Another environment: the profile is read, and its variables count as they do then.
			for _, n := range []string{"x", "y", "y", "y", "y"} {
				want(corral.Command{Shell: show, Env: map[string]string{"GIVEN": n, "A": "passed", "C": n}}, "1 "+n+":b no "+n+"\n1")
				time.Sleep(100 * time.Millisecond)
			}
			want(corral.Command{Shell: isLogin, Env: map[string]string{"GIVEN": "one", "A": "off"}}, "login")
			want(corral.Command{Shell: isLogin}, "snapshot")
			want(corral.Command{Shell: isLogin, PathPrepend: []string{"/opt/x"}}, "login")
			want(corral.Command{Shell: isLogin, TTY: &corral.Size{}}, "login")
			// A login shell that the caller names, as E2B's clients do.
			own := corral.Command{Args: []string{"/bin/sh", "-l", "-c", `case $(tr -d '\0' </proc/$$/cmdline) in /bin/sh-l-c*) echo login ;; *) echo "$A $B" ;; esac`}}
			for end := time.Now().Add(30 * time.Second); text(t, x, own) == "login" && time.Now().Before(end); {
				time.Sleep(50 * time.Millisecond)
			}
			want(own, "1 configured:b")
			// What the profile looks at, and the profile itself.
			want(corral.Command{Shell: "touch flag"}, "")
			want(corral.Command{Shell: show}, "1 configured:b 1 no\n1")
			want(corral.Command{Shell: "rm flag"}, "")
			want(corral.Command{Shell: show}, "1 configured:b no no\n1")
			profile("export A=2 B=3")
			want(corral.Command{Shell: show}, "2 3 no no\n1")
			sandboxtest.WaitForSnapshot(t, x)
			want(corral.Command{Shell: show}, "2 3 no no\n1")
			if log := log.String(); strings.Contains(log, "login profile") {
				t.Error(log)
			}

			for name, c := range map[string]struct{ profile, shell, want, why string }{
				"function": {"f() { echo f; }", "f", "f", "more than an environment"},
				"alias":    {"alias g='echo g'", "g", "g", "more than an environment"},
				"umask":    {"umask 027", "umask", "0027", "more than an environment"},
				"limit":    {"ulimit -S -n 77", "ulimit -n", "77", "more than an environment"},
				"trap":     {"trap 'echo bye' EXIT", "echo hi", "hi\nbye", "more than an environment"},
				"option":   {"set -e", "false; echo on", "", "it runs"},
				"output":   {"echo out", ":", "out", "standard output"},
				"program":  {"export N=$(cat /proc/sys/kernel/random/uuid)", "[ -n \"$N\" ] && echo some", "some", "runs a program"},
				"exit":     {"echo end; exit", "echo on", "end", "standard output"},
			} {
				log.Take()
				profile(c.profile)
				for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
					want(corral.Command{Shell: c.shell}, c.want)
					if strings.Contains(log.String(), c.why) {
						break
					}
					if time.Now().After(end) {
						t.Fatalf("%s: the log does not say why there is no snapshot", name)
					}
				}
				want(corral.Command{Shell: c.shell}, c.want)
			}
		})
	}
}

// write writes a file of the workspace, as a command without a shell: any profile may be there.
func write(t *testing.T, x corral.Executor, name, text string) {
	t.Helper()
	cmd := corral.Command{Args: []string{"/bin/sh", "-c", `printf %s "$1" > "$2"`, "sh", text, name}}
	r, err := runner.Run(t.Context(), x, cmd, runner.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Exit.Success() {
		t.Fatal(r.Exit)
	}
}
