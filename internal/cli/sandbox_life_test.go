package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/sandbox"
)

func TestSandboxShow(t *testing.T) {
	state := t.TempDir()
	for name, text := range map[string]string{
		"sandboxes/main/sandbox.json": `{"version": 1, "name": "main", "owner": "main", "key": "agent:main", "created": "2026-01-02T03:04:05Z", "workspace": "main-w", "boxes": ["main-a", "main-gone", "main-b"]}`,
		"boxes/main-a/box.json":       `{"id": "main-a", "container": "corral-main-a", "image": "old", "driver": "fds", "created": "2026-01-02T03:04:06Z"}`,
		"boxes/main-b/box.json":       `{"id": "main-b", "container": "corral-main-b", "image": "new", "driver": "fds", "created": "2026-01-02T03:04:07Z"}`,
	} {
		file := filepath.Join(state, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := &fakeMachine{eng: fakeEngine{rows: []daemon.SandboxRow{{Name: "main", Container: "corral-main-a", Running: true}, {Name: "main", Container: "corral-main-b", Running: true}}}}
	code, stdout, stderr := m.run(t, nil, "sandbox", "show", "--state-dir", state, "main")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != 0 || len(lines) != 8 || !strings.HasSuffix(lines[5], " the volume corral-workspace-main-w, private, at /workspace") ||
		!strings.Contains(lines[6], "corral-main-b, running, new, fds, made 2026-01-02T03:04:07Z") || !strings.Contains(lines[7], "corral-main-a, left for its commands, old") {
		t.Errorf("%d, %s%s", code, stdout, stderr)
	}
	// A directory of this machine, and another one in the last container.
	private := filepath.Join(state, "workspaces", "main-w")
	if err := os.MkdirAll(private, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, stdout, _ := m.run(t, nil, "sandbox", "show", "--state-dir", state, "main"); !strings.Contains(stdout, " "+private+", private, at /workspace\n") {
		t.Error(stdout)
	}
	if err := os.WriteFile(filepath.Join(state, "boxes", "main-b", "box.json"), []byte(`{"id": "main-b", "container": "corral-main-b", "image": "new", "driver": "fds", "created": "2026-01-02T03:04:07Z", "workspaceAccess": "rw", "workspaceDirectory": "/srv/p"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stdout, _ := m.run(t, nil, "sandbox", "show", "--state-dir", state, "main"); !strings.Contains(stdout, " /srv/p, rw, at /workspace\n") || !strings.Contains(stdout, " "+private+", private, in no container now\n") {
		t.Error(stdout)
	}
	code, stdout, _ = m.run(t, nil, "sandbox", "show", "--state-dir", state, "--json", "main")
	if code != 0 || !strings.Contains(stdout, `"running":["corral-main-a","corral-main-b"]`) || !strings.Contains(stdout, `"key":"agent:main"`) {
		t.Errorf("%d, %s", code, stdout)
	}
	// It is of this machine, wherever commands go.
	if code, _, stderr := m.run(t, []string{"CORRAL_URL=http://gw.example"}, "sandbox", "ls"); code != 0 || !strings.HasPrefix(stderr, "warning: Commands go to http://gw.example; this looks at the sandboxes of this machine alone.\n") {
		t.Errorf("%d, %s", code, stderr)
	}
	// One at another engine.
	m.eng.rows[0] = daemon.SandboxRow{Name: "main", Container: "corral-main-a", Engine: "docker tcp://a:1"}
	if _, stdout, _ := m.run(t, nil, "sandbox", "show", "--state-dir", state, "main"); !strings.Contains(stdout, "corral-main-a, at docker tcp://a:1, old") {
		t.Error(stdout)
	}
	// Paused, and of a client of E2B.
	for i, name := range []string{"corral-main-a", "corral-main-b"} {
		m.eng.rows[i] = daemon.SandboxRow{Name: "main", Container: name, Running: true, Paused: true}
	}
	for _, name := range []string{"sandboxes/main/paused", "e2b/main.json"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(state, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(state, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, stdout, _ = m.run(t, nil, "sandbox", "show", "--state-dir", state, "main")
	if !strings.Contains(stdout, "corral-main-b, paused, new") || !strings.Contains(stdout, "corral-main-a, paused, old") || !strings.Contains(stdout, " /srv/p, rw, at /home/user\n") {
		t.Error(stdout)
	}
	// Of what was removed there are records, and no hint names it.
	gone := filepath.Join(state, "sandboxes", "main2", "sandbox.json")
	if err := os.MkdirAll(filepath.Dir(gone), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gone, []byte(`{"version": 1, "name": "main2", "created": "2026-01-02T03:04:05Z", "boxes": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := m.run(t, nil, "sandbox", "show", "--state-dir", state, "main2"); code != 125 || stdout != "" || !strings.HasPrefix(stderr, "corral: the sandbox main2 was removed\nhint: corral sandbox logs main2 ") {
		t.Errorf("%d, %s%s", code, stdout, stderr)
	}
	if _, _, stderr := m.run(t, nil, "sandbox", "show", "--state-dir", state, "gain2"); strings.Contains(stderr, "main2") {
		t.Error(stderr)
	}
	for _, c := range []string{"show", "shell", "stats", "cp x", "ls-files", "rm"} {
		args := append(append([]string{"sandbox"}, strings.Fields(c)...), "--state-dir", state, "mian")
		if c == "cp x" {
			args[len(args)-1] += ":"
		}
		if code, _, stderr := m.run(t, nil, args...); code == 0 || !strings.Contains(stderr, "hint: did you mean main? corral sandbox ls") {
			t.Errorf("%s: %d, %s", c, code, stderr)
		}
	}
	for _, name := range []string{"other", "../main"} {
		if code, stdout, stderr := m.run(t, nil, "sandbox", "show", "--state-dir", state, name); code == 0 || stdout != "" || !strings.Contains(stderr, "corral sandbox ls") {
			t.Errorf("%s: %d, %s%s", name, code, stdout, stderr)
		}
	}
}

func TestSandboxPrune(t *testing.T) {
	const day = 24 * time.Hour
	file := filepath.Join(t.TempDir(), "config.json5")
	if err := os.WriteFile(file, []byte(`{sandbox: {prune: {idleHours: 1.5}}, agents: {list: [{id: "main", sandbox: {prune: {maxAgeDays: 0}}}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		want sandbox.PruneOptions // for main
	}{
		{"", sandbox.PruneOptions{Idle: day, Age: 7 * day}},
		{"--idle 2h", sandbox.PruneOptions{Idle: 2 * time.Hour, Age: 7 * day}},
		{"--idle 0 --age 0", sandbox.PruneOptions{}},
		{"--config " + file, sandbox.PruneOptions{Idle: 90 * time.Minute}},
		{"--age 1h --config " + file, sandbox.PruneOptions{Idle: 90 * time.Minute, Age: time.Hour}},
	} {
		m := &fakeMachine{eng: fakeEngine{swept: []string{"corral-x"}}}
		code, stdout, stderr := m.run(t, nil, append([]string{"sandbox", "prune"}, strings.Fields(tc.args)...)...)
		if code != 0 || stdout != "corral-x\n" || len(m.eng.pruned) != 1 || m.eng.pruned[0] != tc.want {
			t.Errorf("%s: %d, %v, %s%s", tc.args, code, m.eng.pruned, stdout, stderr)
		}
	}
	m := &fakeMachine{}
	if code, _, _ := m.run(t, nil, "sandbox", "prune", "--idle", "-1h"); code != 2 || len(m.eng.pruned) != 0 {
		t.Errorf("a negative time: %d", code)
	}
}
