//go:build linux

package cli

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/fleet/join"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// machinesKey is that of the machines of a script.
const machinesKey = "machines"

// A scriptMachine asks to be a node and, once it is approved, is one.
type scriptMachine struct {
	key    nkeys.KeyPair
	cancel context.CancelFunc
	done   chan struct{}
}

type scriptMachines map[string]*scriptMachine

func (m scriptMachines) stop() {
	for _, one := range m {
		one.stop()
	}
}

func (m *scriptMachine) stop() {
	m.cancel()
	<-m.done
}

// machineCommand is for scripts:
//
//	machine start NAME [TOKEN-FILE]  has a machine ask, by the line in the file join; the code
//	                                 that it shows is then in NAME.code, and what came of it
//	                                 in NAME.state. Its key is the same the next time
//	machine stop NAME                ends it
func machineCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: machine start|stop NAME [TOKEN-FILE]")
	}
	machines, name := ts.Value(machinesKey).(scriptMachines), args[1]
	m := machines[name]
	if args[0] == "stop" {
		m.stop()
		return
	}
	if m == nil {
		key, err := nkeys.CreateUser()
		ts.Check(err)
		m = &scriptMachine{key: key}
		machines[name] = m
	}
	command := strings.TrimSpace(ts.ReadFile("join"))
	line, err := join.ParseLine(strings.TrimPrefix(command, "corral node --gateway "))
	ts.Check(err)
	token := ""
	if len(args) > 2 {
		token = strings.TrimSpace(ts.ReadFile(args[2]))
	}
	for _, file := range []string{name + ".code", name + ".state"} {
		if err := os.Remove(ts.MkAbs(file)); err != nil && !os.IsNotExist(err) {
			ts.Fatalf("%v", err)
		}
	}
	note := func(file, text string) { // whole, or not there
		path := ts.MkAbs(file)
		if os.WriteFile(path+".new", []byte(text+"\n"), 0o600) == nil {
			_ = os.Rename(path+".new", path) // the script looks for it
		}
	}
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(context.Background())
	done := make(chan struct{})
	m.done = done
	go func() {
		defer close(done)
		if err := m.live(ctx, line, name, token, note); err != nil && ctx.Err() == nil {
			note(name+".state", "failed: "+err.Error())
		}
	}()
}

// connect tries until it connects: the gateway cuts the connections of a machine that it
// approves, perhaps also the next one, which is being made.
func (m *scriptMachine) connect(ctx context.Context, line join.Line) (*fabric.Link, error) {
	for attempt := 1; ; attempt++ {
		link, err := fabric.Connect(ctx, func(o nats.Option) (*nats.Conn, error) {
			return broker.Dial(line.URL(), line.Cert, m.key, append(fabric.ConnectOptions(nil), o)...)
		}, func(error) {})
		if err == nil || ctx.Err() != nil {
			return link, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(fabric.Backoff(attempt)):
		}
	}
}

func (m *scriptMachine) live(ctx context.Context, line join.Line, name, token string, note func(file, text string)) error {
	conn, err := m.connect(ctx, line)
	if err != nil {
		return err
	}
	v, err := join.Request(ctx, join.Options{
		Conn: conn, Key: m.key, Gateway: line.Key, Token: token,
		Hello: pairing.Hello{Name: name, OS: "linux", Arch: "amd64", Version: "v0.0.0-test"},
		Shown: func(v join.Verdict) { note(name+".code", v.Code) },
	})
	conn.Close()
	if err != nil {
		return err
	}
	note(name+".state", "approved as "+v.Name)
	if conn, err = m.connect(ctx, line); err != nil { // with what a node may do
		return err
	}
	defer conn.Close()
	x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"hostname": fakeexec.Print(name+".example\n", "", 0)}}
	err = fabric.Serve(ctx, conn, fabric.NodeConfig{
		ID: v.ID, Executor: x, GatewayKeys: []string{line.Key}, About: fabric.Hello{Program: "v0.0.0-test", OS: "linux", Arch: "amd64", Host: name + ".example"},
	})
	if cerr := x.Close(); err == nil {
		err = cerr
	}
	return err
}
