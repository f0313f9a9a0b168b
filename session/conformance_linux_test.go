package session_test

import (
	"context"
	"io"
	"path/filepath"
	"sync"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/session"
)

// life is an agent with all that is under it, as one life of a gateway has it.
type life struct {
	session.Agent
	manager  *session.Manager
	executor io.Closer
	state    string
	once     sync.Once
	err      error
}

func (l *life) Close() error {
	l.once.Do(func() {
		if l.err = l.manager.Close(); l.err == nil {
			l.err = l.executor.Close()
		}
	})
	return l.err
}

func open(t testing.TB, cfg hostexec.Config, state string) *life {
	cfg.StateDir = filepath.Join(state, "host")
	e, err := hostexec.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m, err := session.Open(t.Context(), session.Config{
		Dir:      filepath.Join(state, "sessions"),
		Executor: func(context.Context, string) (corral.Executor, error) { return e, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &life{Agent: m.Agent(session.DefaultAgent), manager: m, executor: e, state: state}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Whatever is true of processes is true of sessions.
func TestConformance(t *testing.T) {
	dir, bin := testdir.New(t), testdir.New(t)
	cfg := hostexec.Config{
		WardenPath: wardenbintest.Build(t), Workspace: dir,
		Environ: exectest.HostEnviron(dir),
	}
	tg := exectest.HostTarget(t, dir, bin)
	tg.Name = "sessions, hostexec warden"
	tg.New = func(t testing.TB) corral.Executor { return open(t, cfg, testdir.New(t)) }
	tg.Reopen = func(t testing.TB, old corral.Executor) corral.Executor {
		if err := old.(*life).Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, cfg, old.(*life).state)
	}
	exectest.Run(t, tg)
}
