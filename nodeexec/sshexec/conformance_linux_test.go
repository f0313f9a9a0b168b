package sshexec

import (
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// life is one life of the gateway.
type life struct {
	corral.Executor
	hosts *Hosts
	dir   string
}

func (l *life) Close() error { return l.hosts.Close() }

func TestConformance(t *testing.T) {
	d := startSSHD(t)
	begin := func(t testing.TB, dir string) *life {
		n := d.hosts(t, d.config(dir))
		return &life{Executor: box(t, n), hosts: n, dir: dir}
	}
	tg := exectest.Target{
		Name: "ssh, OpenSSH's server",
		New:  func(t testing.TB) corral.Executor { return begin(t, filepath.Join(testdir.New(t), "ssh")) },
		Reopen: func(t testing.TB, old corral.Executor) corral.Executor {
			l := old.(*life)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return begin(t, l.dir)
		},
		Workspace: d.work, TestProg: exectest.BuildTestProg(t, testdir.New(t)),
		BaseEnv: map[string]string{
			"HOME": d.work, "USER": d.user, "LOGNAME": d.user,
			"CORRAL_SHELL": "exec", "OPENCLAW_SHELL": "exec",
		},
		IgnoreEnv:      []string{"PATH", "SHELL", "MAIL", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "CORRAL_PROCESS", "PWD", "OLDPWD", "SHLVL", "_"},
		RefusesEnvPath: corral.ErrDenied,
		Info:           corral.Info{Host: corral.HostNode, Node: "ssh:box"},
		Exempt:         map[string]string{},
		Slow:           4,
	}
	for _, l := range limits {
		for _, name := range exectest.Like(t, l.cases) {
			if l.kind == refused {
				tg.Unsupported = append(tg.Unsupported, name)
			} else {
				tg.Exempt[name] = l.reason
			}
		}
	}
	exectest.Run(t, tg)
}
