// Package clitest has what test scripts of the program corral are written with,
// beside the commands of testscript itself. It is for tests alone.
package clitest

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/corral-exec/corral/internal/test/logtest"
)

// Commands are, for testscript.Params.Cmds:
//
//	exits CODE PROGRAM [ARG]...         runs a program and checks its exit code
//	[!] json PATH VALUE                 checks a field of the JSON document that was printed last,
//	                                    such as exitCode or checks.engine.status, where a word in
//	                                    a list finds the element of that name
//	signal CODE SIGNALS [CORRAL-ARG]... runs corral, sends it the signals (INT,TERM) once the command
//	                                    has said "ready" and then a fifth of a second apart, and
//	                                    checks the exit code
func Commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"exits": exits, "json": jsonField, "signal": signalled,
	}
}

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

var signals = map[string]os.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM,
}

const (
	readyWithin = 30 * time.Second
	endsWithin  = time.Minute
)

func signalled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: signal CODE SIGNALS CORRAL-ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	program, err := exec.LookPath("corral")
	ts.Check(err)
	cmd := exec.Command(program, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "TMPDIR", "HOME", "SHELL", "XDG_CONFIG_HOME", "GORACE", "DOCKER_HOST", "CORRAL_STATE_DIR", "CORRAL_IMAGE", "CORRAL_WARDEN"} {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	out := &logtest.Log{}
	cmd.Stdout, cmd.Stderr = out, out
	ts.Check(cmd.Start())
	timer := time.AfterFunc(endsWithin, func() { _ = cmd.Process.Kill() }) // it is gone otherwise
	defer timer.Stop()
	for deadline := time.Now().Add(readyWithin); !strings.Contains(out.String(), "ready"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("it is not ready; output: %s", out)
		}
	}
	for _, name := range strings.Split(args[1], ",") {
		ts.Check(cmd.Process.Signal(signals[name]))
		time.Sleep(200 * time.Millisecond)
	}
	_ = cmd.Wait() // the exit code says it
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit code %d, want %d; output: %s", got, want, out)
	}
	ts.Logf("%s", out)
}
