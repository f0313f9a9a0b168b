package client_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/api"
	"github.com/corral-exec/corral/internal/exectest"
	"github.com/corral-exec/corral/internal/testdir"
	"github.com/corral-exec/corral/internal/wardenbin/wardenbintest"
	"github.com/corral-exec/corral/session"
)

// life is a client with all that is under it, as one life of a gateway has it.
type life struct {
	*client.Client
	state string
	close func()
}

func (l *life) Close() error { l.close(); return nil }

func open(t testing.TB, cfg hostexec.Config, state string) *life {
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
	server, err := gateway.New(gateway.Config{Sessions: sessions})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(state, api.SocketFile)
	listener, err := gateway.ListenUnix(socket)
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
	l := &life{Client: c, state: state}
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

// Whatever is true of processes is true of those that are spoken to over HTTP.
func TestConformance(t *testing.T) {
	dir, bin := testdir.New(t), testdir.New(t)
	cfg := hostexec.Config{
		WardenPath: wardenbintest.Build(t), Workspace: dir,
		Environ: []string{"HOME=" + dir, "PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/sh", "LANG=C.UTF-8"},
	}
	exectest.Run(t, exectest.Target{
		Name: "client, gateway, hostexec warden",
		New:  func(t testing.TB) corral.Executor { return open(t, cfg, testdir.New(t)) },
		Reopen: func(t testing.TB, old corral.Executor) corral.Executor {
			old.(*life).close()
			return open(t, cfg, old.(*life).state)
		},
		Workspace: dir, TestProg: exectest.BuildTestProg(t, bin),
		BaseEnv: map[string]string{
			"HOME": dir, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8",
			"CORRAL_SHELL": "exec", "OPENCLAW_SHELL": "exec",
		},
		IgnoreEnv:      []string{"CORRAL_PROCESS"},
		RefusesEnvPath: corral.ErrDenied,
		Info:           corral.Info{Host: corral.HostGateway},
	})
}
