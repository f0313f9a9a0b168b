package client_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/gateway/listen"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
)

// life is a client with all that is under it, as one life of a gateway has it.
type life struct {
	*client.Client
	host     *hostexec.Executor
	sessions *session.Manager
	state    string
	close    func()
}

func (l *life) Close() error { l.close(); return nil }

func open(t testing.TB, cfg hostexec.Config, state string) *life {
	return openWith(t, cfg, state, nil)
}

func openWith(t testing.TB, cfg hostexec.Config, state string, change func(*gateway.Config)) *life {
	cfg.StateDir = filepath.Join(state, "host")
	host, err := hostexec.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := session.Open(t.Context(), session.Config{
		Dir:      filepath.Join(state, "sessions"),
		Executor: func(context.Context, string) (corral.Executor, error) { return host, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	config := gateway.Config{Sessions: sessions, Tools: func(agent string) gateway.Tools {
		return tools{tool.New(tool.Config{Agent: sessions.Agent(agent)})}
	}}
	if change != nil {
		change(&config)
	}
	server, err := gateway.New(config)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(state, api.SocketFile)
	listener, err := listen.Unix(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(ctx, listener) }()
	c, err := client.New(client.Options{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	l := &life{Client: c, host: host, sessions: sessions, state: state}
	closed := false
	l.close = func() {
		if closed {
			return
		}
		closed = true
		stop()
		if err := <-stopped; err != nil {
			t.Errorf("Serve: %v", err)
		}
		for _, c := range []interface{ Close() error }{c, sessions, host} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(l.close)
	return l
}

// tools are those of package tool.
type tools struct{ *tool.Tools }

func (t tools) Call(ctx context.Context, name string, args json.RawMessage) (any, error) {
	return t.Tools.Call(ctx, name, args)
}

func (t tools) List(context.Context) []gateway.Tool {
	var list []gateway.Tool
	for _, d := range t.Definitions() {
		schema, err := json.Marshal(d.Input)
		if err != nil {
			panic(err) // it is made from Go types
		}
		list = append(list, gateway.Tool{Name: d.Name, Description: d.Description, InputSchema: schema})
	}
	return list
}

// Whatever is true of processes is true of those that are spoken to over HTTP.
func TestConformance(t *testing.T) {
	dir, bin := testdir.New(t), testdir.New(t)
	cfg := hostexec.Config{
		WardenPath: wardenbintest.Build(t), Workspace: dir,
		Environ: exectest.HostEnviron(dir),
	}
	tg := exectest.HostTarget(t, dir, bin)
	tg.Name = "client, gateway, hostexec warden"
	tg.Exempt = map[string]string{"attach/digest": "the gateway compares commands itself, and tells no client what could be guessed from a digest"}
	tg.New = func(t testing.TB) corral.Executor { return open(t, cfg, testdir.New(t)) }
	tg.Reopen = func(t testing.TB, old corral.Executor) corral.Executor {
		old.(*life).close()
		return open(t, cfg, old.(*life).state)
	}
	exectest.Run(t, tg)
}
