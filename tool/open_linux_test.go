package tool

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/session"
)

// onHost returns tools for real commands on this machine.
func onHost(t *testing.T, cfg Config) *Tools {
	t.Helper()
	return over(t, host(t), cfg)
}

func host(t *testing.T) corral.Executor {
	t.Helper()
	state, work := testdir.New(t), testdir.New(t)
	e, err := hostexec.New(hostexec.Config{
		InProcess: true, StateDir: filepath.Join(state, "host"), Workspace: work,
		Environ: []string{"HOME=" + work, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"},
	})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, e)
	return e
}

// closing closes c when the test ends.
func closing(t *testing.T, c io.Closer) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// over returns tools for sessions on an executor.
func over(t *testing.T, e corral.Executor, cfg Config) *Tools {
	t.Helper()
	cfg.Agent = sessions(t, e).Agent("main")
	return New(cfg)
}

func sessions(t *testing.T, e corral.Executor) *session.Manager {
	t.Helper()
	m, err := session.Open(t.Context(), session.Config{
		Dir:      filepath.Join(testdir.New(t), "sessions"),
		Executor: func(context.Context, string) (corral.Executor, error) { return e, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, m)
	return m
}
