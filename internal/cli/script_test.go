package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain makes this binary corral as well, for the scripts and the tests
// that need a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"corral": func() { os.Exit(Main("v0.0.0-test")) },
	})
}

// raceOptions spare every process of a race-tested corral a second at its end.
const raceOptions = "atexit_sleep_ms=0"

type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("CORRAL_STATE_DIR", filepath.Join(env.WorkDir, "state"))
			env.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
			env.Setenv("SHELL", "/bin/sh")
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GORACE", raceOptions)
			// Nothing that a call leaves in the temporary directory is ours.
			env.Defer(func() {
				left, err := filepath.Glob(filepath.Join(env.WorkDir, ".tmp", "corral-*"))
				if err != nil || len(left) > 0 {
					t.Errorf("left behind: %v, %v", left, err)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"json":   jsonField,
			"signal": signalled,
		},
	})
}

// exits CODE PROGRAM [ARG]... runs a program and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG]...")
	}
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

// json PATH VALUE checks a field of the JSON document that was printed last,
// such as exitCode or checks.engine.status, where a word in a list finds the
// element of that name.
func jsonField(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json PATH VALUE")
	}
	text := ts.ReadFile("stdout")
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("the document is not one line: %q", text)
	}
	var v any
	ts.Check(json.Unmarshal([]byte(text), &v))
	for _, key := range strings.Split(args[0], ".") {
		switch node := v.(type) {
		case map[string]any:
			value, found := node[key]
			if !found {
				ts.Fatalf("there is no %s in %v", key, node)
			}
			v = value
		case []any:
			i := slices.IndexFunc(node, func(e any) bool { m, ok := e.(map[string]any); return ok && m["name"] == key })
			if i < 0 {
				ts.Fatalf("there is no %s in %v", key, node)
			}
			v = node[i]
		default:
			ts.Fatalf("there is no %s in %v", key, node)
		}
	}
	got, ok := v.(string)
	if !ok {
		text, err := json.Marshal(v)
		ts.Check(err)
		got = string(text)
	}
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %q, want %q", args[0], got, args[1])
	}
}

// signal CODE SIGNALS CORRAL-ARG... runs corral, sends it the signals, separated
// by commas, once the command has said "ready" and then a fifth of a second
// apart, and checks the exit code.
func signalled(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	program, err := exec.LookPath("corral")
	ts.Check(err)
	cmd := exec.Command(program, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "GORACE", "TMPDIR", "SHELL", "HOME", "CORRAL_STATE_DIR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	out := &screen{}
	cmd.Stdout, cmd.Stderr = out, out
	ts.Check(cmd.Start())
	timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() }) // it is gone otherwise
	defer timer.Stop()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if strings.Contains(out.String(), "ready") {
			break
		}
		if time.Now().After(deadline) {
			ts.Fatalf("it is not ready; output: %s", out)
		}
	}
	for _, name := range strings.Split(args[1], ",") {
		ts.Check(cmd.Process.Signal(signalNamed[name]))
		time.Sleep(200 * time.Millisecond)
	}
	_ = cmd.Wait() // the exit code says it
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit code %d, want %d; output: %s", got, want, out)
	}
	ts.Logf("%s", out)
}

// A screen is what a process has written so far.
type screen struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}
