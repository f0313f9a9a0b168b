//go:build linux

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/corral-exec/corral/internal/clitest"
	"github.com/corral-exec/corral/internal/testdir"
	"github.com/corral-exec/corral/internal/wardenbin/wardenbintest"
)

// eventuallyWithin is how long something may take that a script waits for.
const eventuallyWithin = 20 * time.Second

// A scriptGateway is the gateway of one script.
type scriptGateway struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// TestGatewayScripts run with a real gateway, real wardens and real kills.
func TestGatewayScripts(t *testing.T) {
	warden := wardenbintest.Build(t)
	const key = "gateway"
	commands := clitest.Commands()
	// gateway start [FLAG]... starts one and waits until it is ready; its log
	// is gateway.log. gateway kill is kill -9, gateway stop a SIGTERM after
	// which it must end by itself with code 0.
	commands["gateway"] = func(ts *testscript.TestScript, neg bool, args []string) {
		g := ts.Value(key).(*scriptGateway)
		switch {
		case neg || len(args) == 0:
			ts.Fatalf("usage: gateway start|kill|stop")
		case args[0] == "start":
			g.start(ts, args[1:])
		case args[0] == "kill":
			ts.Check(g.cmd.Process.Kill())
			<-g.exited
		case args[0] == "stop":
			ts.Check(g.cmd.Process.Signal(syscall.SIGTERM))
			<-g.exited
			if code := g.cmd.ProcessState.ExitCode(); code != 0 {
				ts.Fatalf("the gateway ended with code %d: %s", code, ts.ReadFile("gateway.log"))
			}
		}
	}
	// eventually PROGRAM [ARG]... runs a program until it succeeds.
	commands["eventually"] = func(ts *testscript.TestScript, neg bool, args []string) {
		var err error
		for deadline := time.Now().Add(eventuallyWithin); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if err = ts.Exec(args[0], args[1:]...); (err == nil) != neg {
				return
			}
		}
		ts.Fatalf("it did not come to that: %v", err)
	}
	commands["machine"] = machineCommand
	testscript.Run(t, testscript.Params{
		Dir: "testdata/gateway",
		Setup: func(env *testscript.Env) error {
			g := &scriptGateway{}
			env.Values[key] = g
			machines := scriptMachines{}
			env.Values[machinesKey] = machines
			env.Defer(machines.stop)
			state := filepath.Join(testdir.New(t), "state")
			for k, v := range map[string]string{
				"CORRAL_STATE_DIR": state, "STATE": state, "CORRAL_WARDEN": warden,
				"DOCKER_HOST": "unix:///nonexistent/docker.sock", "SHELL": "/bin/sh", "HOME": env.WorkDir, "GORACE": raceOptions,
				"XDG_CONFIG_HOME": filepath.Join(env.WorkDir, "config"), // whatever configuration this machine has
			} {
				env.Setenv(k, v)
			}
			env.Defer(func() {
				if g.cmd != nil {
					_ = g.cmd.Process.Kill() // it may be gone
					<-g.exited
				}
			})
			return nil
		},
		Cmds: commands,
	})
}

func (g *scriptGateway) start(ts *testscript.TestScript, flags []string) {
	program, err := exec.LookPath("corral")
	ts.Check(err)
	log, err := os.OpenFile(ts.MkAbs("gateway.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	ts.Check(err)
	defer log.Close()
	g.cmd = exec.Command(program, append([]string{"gateway"}, flags...)...)
	g.cmd.Dir, g.cmd.Stdout, g.cmd.Stderr = ts.MkAbs("."), log, log
	for _, name := range []string{"PATH", "TMPDIR", "HOME", "SHELL", "GORACE", "DOCKER_HOST", "CORRAL_STATE_DIR", "XDG_CONFIG_HOME", "CORRAL_CONFIG", "CORRAL_WARDEN"} {
		g.cmd.Env = append(g.cmd.Env, name+"="+ts.Getenv(name))
	}
	ts.Check(g.cmd.Start())
	exited := make(chan struct{})
	g.exited = exited
	go func() { // until the gateway has ended, which whoever started it sees to
		defer close(exited)
		_ = g.cmd.Wait()
	}()
	for deadline := time.Now().Add(eventuallyWithin); ; time.Sleep(10 * time.Millisecond) {
		status := exec.Command(program, "gateway", "status")
		status.Env = g.cmd.Env
		if out, err := status.CombinedOutput(); err == nil && strings.Contains(string(out), "running") {
			return
		}
		select {
		case <-exited:
			ts.Fatalf("the gateway ended: %s", ts.ReadFile("gateway.log"))
		default:
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the gateway is not ready: %s", ts.ReadFile("gateway.log"))
		}
	}
}
