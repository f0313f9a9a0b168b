//go:build e2e

// Package cli_test runs the program corral against a real container engine, by
// the scripts in testdata/script. What needs no engine is tested beside
// internal/cli. Nothing is skipped: without an engine the tests fail.
package cli_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/cli"
	"github.com/corral-exec/corral/internal/testdir"
	"github.com/corral-exec/corral/internal/wardenbin/wardenbintest"
	"github.com/corral-exec/corral/sandbox/docker"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"corral": func() { os.Exit(cli.Main("v0.0.0-e2e")) },
	})
}

func TestScripts(t *testing.T) {
	engine, err := docker.New(docker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := (images.Store{Engine: engine.Images()}).Ensure(t.Context(), images.Busybox, nil); err != nil {
		t.Fatal(err)
	}
	warden := wardenbintest.Build(t)
	// It takes every container with it, also that of a test that failed.
	root := testdir.New(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", WorkdirRoot: root,
		Setup: func(env *testscript.Env) error {
			for _, kv := range [][2]string{
				{"CORRAL_STATE_DIR", filepath.Join(env.WorkDir, "state")},
				{"CORRAL_IMAGE", images.Busybox},
				{"CORRAL_WARDEN", warden},
				{"DOCKER_HOST", os.Getenv("DOCKER_HOST")},
				{"GORACE", "atexit_sleep_ms=0"},
				{"HOME", env.WorkDir},
			} {
				env.Setenv(kv[0], kv[1])
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "json": jsonField, "signal": signalled,
		},
	})
}

// exits CODE PROGRAM [ARG]... runs a program and checks its exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// json FIELD VALUE checks a field of the JSON object that was printed last.
func jsonField(ts *testscript.TestScript, _ bool, args []string) {
	var object map[string]json.RawMessage
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &object))
	if got := strings.Trim(string(object[args[0]]), `"`); got != args[1] {
		ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
	}
}

// signal CODE SIGNALS CORRAL-ARG... runs corral, sends it so many SIGINTs, a
// fifth of a second apart, once the command has said "ready", and checks the
// exit code.
func signalled(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	signals, err := strconv.Atoi(args[1])
	ts.Check(err)
	program, err := exec.LookPath("corral")
	ts.Check(err)
	cmd := exec.Command(program, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "TMPDIR", "HOME", "GORACE", "DOCKER_HOST", "CORRAL_STATE_DIR", "CORRAL_IMAGE", "CORRAL_WARDEN"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	ts.Check(cmd.Start())
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // it is gone otherwise
	defer timer.Stop()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(out.String(), "ready"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("it is not ready; output: %s", out)
		}
	}
	for range signals {
		ts.Check(cmd.Process.Signal(syscall.SIGINT))
		time.Sleep(200 * time.Millisecond)
	}
	_ = cmd.Wait() // the exit code says it
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit code %d, want %d; output: %s", got, want, out)
	}
}

// output is what a process has written so far.
type output struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
