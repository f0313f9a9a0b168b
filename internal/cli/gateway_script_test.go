//go:build linux

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/corral-exec/corral/internal/fleet/hub"
	"github.com/corral-exec/corral/internal/test/clitest"
	"github.com/corral-exec/corral/internal/test/natstest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
)

// eventuallyWithin is how long something may take that a script waits for.
const eventuallyWithin = 20 * time.Second

// A scriptProgram is a corral that a script starts and ends.
type scriptProgram struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// launch starts corral; what it says is added to the files.
func (p *scriptProgram) launch(ts *testscript.TestScript, stdout, stderr string, args []string) {
	program, err := exec.LookPath("corral")
	ts.Check(err)
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir = ts.MkAbs(".")
	for to, file := range map[*io.Writer]string{&p.cmd.Stdout: stdout, &p.cmd.Stderr: stderr} {
		f, err := os.OpenFile(ts.MkAbs(file), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		ts.Check(err)
		defer f.Close()
		*to = f
	}
	for _, name := range []string{"PATH", "TMPDIR", "HOME", "SHELL", "GORACE", "DOCKER_HOST", "CORRAL_STATE_DIR", "XDG_CONFIG_HOME", "CORRAL_CONFIG", "CORRAL_WARDEN"} {
		p.cmd.Env = append(p.cmd.Env, name+"="+ts.Getenv(name))
	}
	ts.Check(p.cmd.Start())
	cmd, exited := p.cmd, make(chan struct{})
	p.exited = exited
	go func() { // until it has ended, which whoever started it sees to
		defer close(exited)
		_ = cmd.Wait()
	}()
}

// kill is kill -9, for the end of the script.
func (p *scriptProgram) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // it may be gone
		<-p.exited
	}
}

// end is kill -9 or, gently, a SIGTERM after which it must end by itself with
// code 0.
func (p *scriptProgram) end(ts *testscript.TestScript, gently bool, log string) {
	if !gently {
		ts.Check(p.cmd.Process.Kill())
		<-p.exited
		return
	}
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		ts.Fatalf("%v ended with code %d: %s", p.cmd.Args, code, ts.ReadFile(log))
	}
}

// A scriptGateway is the gateway of one script.
type scriptGateway struct{ scriptProgram }

// TestGatewayScripts run with a real gateway, real wardens and real kills.
func TestGatewayScripts(t *testing.T) {
	warden := wardenbintest.Build(t)
	const key = "gateway"
	commands := clitest.Commands()
	// gateway start [FLAG]... starts the one of CORRAL_STATE_DIR and waits until it
	// is ready; its log is gateway.log. gateway kill is kill -9, gateway stop a
	// SIGTERM after which it must end by itself with code 0.
	commands["gateway"] = func(ts *testscript.TestScript, neg bool, args []string) {
		all := ts.Value(key).(map[string]*scriptGateway)
		g := all[ts.Getenv("CORRAL_STATE_DIR")]
		if g == nil {
			g = &scriptGateway{}
			all[ts.Getenv("CORRAL_STATE_DIR")] = g
		}
		switch {
		case neg || len(args) == 0:
			ts.Fatalf("usage: gateway start|kill|stop")
		case args[0] == "start":
			g.start(ts, args[1:])
		default:
			g.end(ts, args[0] == "stop", "gateway.log")
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
	commands["http"] = httpCommand
	commands["machine"] = machineCommand
	commands["node"] = nodeCommand
	// nats FILE starts a message server of somebody else's, which gateways share, and
	// puts what their configuration says of it into FILE.
	commands["nats"] = func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 {
			ts.Fatalf("usage: nats FILE")
		}
		key, public := natstest.NewKey(t)
		seed, err := key.Seed()
		ts.Check(err)
		creds := ts.MkAbs("gateway.nk")
		ts.Check(os.WriteFile(creds, seed, 0o600))
		config, err := hub.ServerConfig([]string{public}, true, nil, nil)
		ts.Check(err)
		s := natstest.Start(t, fmt.Sprintf("jetstream { store_dir: %q }\n%s", ts.MkAbs("jetstream"), config))
		text, err := json.Marshal(map[string]any{"url": s.URL, "cert": s.Cert, "creds": creds, "shared": true})
		ts.Check(err)
		old, err := os.ReadFile(ts.MkAbs(args[0]))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(string(old), "NATS", string(text), 1)), 0o600))
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/gateway",
		Setup: func(env *testscript.Env) error {
			gateways := map[string]*scriptGateway{}
			env.Values[key] = gateways
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
				for _, g := range gateways {
					g.kill()
				}
			})
			n := &scriptProgram{}
			env.Values[nodeKey] = n
			env.Defer(n.kill)
			return nil
		},
		Cmds: commands,
	})
}

func (g *scriptGateway) start(ts *testscript.TestScript, flags []string) {
	g.launch(ts, "gateway.log", "gateway.log", append([]string{"gateway"}, flags...))
	for deadline := time.Now().Add(eventuallyWithin); ; time.Sleep(10 * time.Millisecond) {
		status := exec.Command(g.cmd.Path, "gateway", "status")
		status.Env = g.cmd.Env
		if out, err := status.CombinedOutput(); err == nil && strings.Contains(string(out), "running") {
			return
		}
		select {
		case <-g.exited:
			ts.Fatalf("the gateway ended: %s", ts.ReadFile("gateway.log"))
		default:
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the gateway is not ready: %s", ts.ReadFile("gateway.log"))
		}
	}
}
