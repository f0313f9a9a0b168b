package session_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/internal/test/natstest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/nodeexec"
	"github.com/corral-exec/corral/session"
)

// owned is a node's executor that keeps whose its processes are, as that of
// package policy/guard does, and allows everything.
type owned struct{ *hostexec.Executor }

func (x owned) StartFor(ctx context.Context, agent string, cmd corral.Command) (corral.Process, error) {
	return x.Start(corral.WithAgent(ctx, agent), cmd)
}

func (owned) Decide(context.Context, string, corral.Command) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

// A session that an agent began through one gateway goes on through another, when
// the first is gone: with all of its output, its input and its exit status.
func TestGateways(t *testing.T) {
	key, public := natstest.NewKey(t)
	node, nodePublic := natstest.NewKey(t)
	server, err := broker.Start(broker.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Authorize: func(k string) (string, bool) { return "n1", k == nodePublic }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)

	host, err := hostexec.New(hostexec.Config{StateDir: filepath.Join(testdir.New(t), "state"), WardenPath: wardenbintest.Build(t)})
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := broker.Pinned(server.Fingerprint(), node)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect("tls://"+server.Addr().String(), append(fabric.ConnectOptions(nil), pinned...)...)
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- fabric.Serve(serving, linktest.Over(t, conn), fabric.NodeConfig{ID: "n1", Executor: owned{host}, GatewayKeys: []string{public}})
	}()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-served, host.Close()); err != nil {
			t.Error(err)
		}
		conn.Close()
	})

	gateway := func() (*session.Manager, *nats.Conn) {
		conn, err := server.Connect(fabric.ConnectOptions(nil)...)
		if err != nil {
			t.Fatal(err)
		}
		f, err := nodeexec.New(nodeexec.Config{Conn: linktest.Over(t, conn), Key: key, Paired: func() []nodeexec.Paired { return []nodeexec.Paired{{ID: "n1", Name: "builder"}} }})
		if err != nil {
			t.Fatal(err)
		}
		router := corral.NewRouter(corral.RouterOptions{Host: corral.HostNode, Nodes: f})
		m, err := session.Open(t.Context(), session.Config{
			Dir:       t.TempDir(),
			Executor:  func(_ context.Context, agent string) (corral.Executor, error) { return ofAgent{router, agent}, nil },
			Elsewhere: f.Attach,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(m.Close(), f.Close()); err != nil {
				t.Error(err)
			}
			conn.Close()
		})
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if _, _, err := f.Select(t.Context(), ""); err == nil {
				return m, conn
			} else if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
	first, dying := gateway()
	second, _ := gateway()

	s, err := first.Agent("ops").Begin(t.Context(), session.Options{Background: true, Command: corral.Command{Shell: `while read -r l; do echo "got $l"; done; exit 5`, Stdin: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), []byte("one\n")); err != nil {
		t.Fatal(err)
	}
	got, err := second.Agent("ops").Find(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range []string{"main", "op"} {
		if _, err := second.Agent(agent).Find(t.Context(), s.ID()); !errors.Is(err, corral.ErrNotFound) {
			t.Errorf("the agent %s finds it: %v", agent, err)
		}
	}
	dying.Close() // without a word
	if _, err := got.Write(t.Context(), []byte("two\n")); err != nil {
		t.Fatal(err)
	}
	if err := got.CloseStdin(t.Context()); err != nil {
		t.Fatal(err)
	}
	exit, err := got.Wait(t.Context())
	if err != nil || exit.Code != 5 {
		t.Fatalf("Wait: %v, %v", exit, err)
	}
	out, err := got.Output(t.Context(), 1000)
	if err != nil || out.Stdout.String() != "got one\ngot two\n" {
		t.Errorf("read %q, %v", out.Stdout, err)
	}
	st := got.Status(t.Context())
	if !strings.HasPrefix(st.Command, "while read -r l") || st.Node != "builder" || st.State != session.Completed || !st.Stdin {
		t.Errorf("%+v", st)
	}
	if err := got.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// ofAgent is what a gateway's agent runs its commands on.
type ofAgent struct {
	corral.Executor
	name string
}

func (a ofAgent) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	return a.Executor.Start(corral.WithAgent(ctx, a.name), cmd)
}
