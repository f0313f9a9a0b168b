package runshell

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/session"
)

// onHost is a tool whose commands are sessions on this machine, in a project root of its
// own. The root has the directories scripts (with my_script.sh) and src. PATH has programs
// that run for a while: npm (for "run dev") and docker-compose.
func onHost(t *testing.T, cfg Config) *Tool {
	t.Helper()
	root, bin, state := testdir.New(t), testdir.New(t), testdir.New(t)
	for _, dir := range []string{"scripts", "src"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{
		filepath.Join(root, "scripts", "my_script.sh"): "pwd",
		filepath.Join(bin, "npm"):                      `case "$*" in "run dev") echo ready; exec sleep 60;; *) echo "npm $*";; esac`,
		filepath.Join(bin, "docker-compose"):           "echo up; exec sleep 60",
	} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	host, err := hostexec.New(hostexec.Config{
		StateDir: filepath.Join(state, "host"), Workspace: root, InProcess: true,
		Environ: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + root}, PathPrepend: []string{bin},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	sessions, err := session.Open(t.Context(), session.Config{
		Dir: filepath.Join(state, "sessions"), Executor: func(context.Context, string) (corral.Executor, error) { return host, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	agent := sessions.Agent("main")
	t.Cleanup(func() {
		for _, st := range agent.List(context.Background()) {
			if p, err := agent.Attach(context.Background(), st.ID); err == nil {
				_ = p.Signal(context.Background(), corral.SIGKILL) // it may have ended
			}
		}
		if err := sessions.Close(); err != nil {
			t.Error(err)
		}
	})
	if cfg.Executor == nil {
		cfg.Executor = agent
	}
	cfg.Root, cfg.Profile = root, cmp.Or(cfg.Profile, pathenv.ProfileQwen)
	tool, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// do runs a command that the tool must not refuse.
func do(t *testing.T, tool *Tool, in Input) Output {
	t.Helper()
	o, err := tool.Run(t.Context(), in)
	if err != nil {
		t.Fatalf("%s: %v", in.Display(), err)
	}
	return o
}
