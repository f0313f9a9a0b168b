package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cli/sandboxes"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/engine"
)

// stored writes the files of a state directory.
func stored(t *testing.T, files map[string]string) (state string) {
	t.Helper()
	state = testdir.New(t)
	for name, text := range files {
		file := filepath.Join(state, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return state
}

// Two sandboxes: one of a conversation, with a container that fails and the one
// that it has now, and one that corral exec made.
var storedSandboxes = map[string]string{
	"sandboxes/chat/sandbox.json": `{"version": 1, "name": "chat", "owner": "main", "key": "agent:main:telegram:1", "created": "2026-01-02T03:04:05Z", "boxes": ["chat-b"]}`,
	"sandboxes/chat/logs/journal": "\nS running 7\n\nS ended 7\n\nE ended {\"at\":\"2026-01-02T03:04:05Z\"}\n",
	"sandboxes/chat/history/chat-a.json": `{"id": "chat-a", "container": "corral-chat-a", "image": "i", "driver": "fds", "created": "2026-01-02T03:04:06Z", "error": "it failed",
		"setup": {"started": "2026-01-02T03:04:06Z", "ended": "2026-01-02T03:04:09Z", "exit": "exit code 7", "failed": true, "output": 12},
		"ended": {"at": "2026-01-02T03:04:10Z", "removed": true}}`,
	"sandboxes/chat/history/chat-a.log": "one\n\u001b[31mtwo\a\n",
	"boxes/chat-b/box.json": `{"id": "chat-b", "sandbox": "chat", "container": "corral-chat-b", "engine": "docker", "image": "i", "hash": "h", "driver": "fds", "created": "2026-01-02T03:05:00Z",
		"pooled": true, "user": "1:1", "workspaceAccess": "rw", "workspaceDirectory": "/srv", "limits": {"memory": 1024, "cpus": 0.5, "pids": 3}}`,
	"sandboxes/mine/sandbox.json": `{"version": 1, "name": "mine", "created": "2026-01-02T03:04:05Z", "boxes": ["mine-a"]}`,
	"boxes/mine-a/box.json":       `{"id": "mine-a", "sandbox": "mine", "container": "corral-mine-a", "image": "i", "driver": "fds", "created": "2026-01-02T03:05:00Z"}`,
}

func storedMachine() *fakeMachine {
	return &fakeMachine{eng: fakeEngine{
		rows: []daemon.SandboxRow{
			{Name: "chat", Container: "corral-chat-b", ID: "b", Running: true}, {Name: "mine", Container: "corral-mine-a", ID: "a"},
			{Name: "old", Container: "corral-old", ID: "o", Image: "i", Driver: "fds", Running: true}, // of an earlier version
		},
		containers: map[string]engine.Container{"corral-chat-b": {Running: true}, "corral-mine-a": {Exit: 137, OOM: true}},
	}}
}

func (m *fakeMachine) keeper(t *testing.T, state string) *daemon.Sandboxes {
	t.Helper()
	a := &app.App{Environ: []string{"HOME=" + t.TempDir()}, Stderr: os.Stderr, Backends: m.backends()}
	return a.LocalSandboxes(state)
}

func TestKeeperDescribes(t *testing.T) {
	m := storedMachine()
	k := m.keeper(t, stored(t, storedSandboxes))
	list, err := k.List(t.Context())
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	chat, mine, old := list[0], list[1], list[2]
	if chat.Agent != "main" || chat.Scope != "session" || chat.Session != "telegram:1" || chat.State != api.SandboxRunning || chat.Commands != 1 ||
		chat.Engine != "docker" || chat.ConfigHash != "h" || !chat.Pooled || chat.Workspace != "/srv" || chat.WorkspaceAccess != "rw" ||
		chat.Limits == nil || chat.Limits.CPUs != 0.5 || len(chat.Containers) != 1 || chat.Containers[0].ID != "b" {
		t.Errorf("%+v", chat)
	}
	if mine.Scope != "" || mine.State != api.SandboxEnded || mine.Limits != nil {
		t.Errorf("%+v", mine)
	}
	if old.Name != "old" || old.State != api.SandboxRunning || len(old.Containers) != 1 {
		t.Errorf("%+v", old)
	}
	if got, err := k.Get(t.Context(), "chat"); err != nil || got.Session != "telegram:1" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := k.Get(t.Context(), "none"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if err := k.Remove(t.Context(), "mine"); err != nil || len(m.eng.removed) != 1 || m.eng.removed[0] != "mine" {
		t.Errorf("removed %v, %v", m.eng.removed, err)
	}
	// Without an engine there is nothing to list, if there need not be one.
	m.err = map[string]error{"engine": corral.Errorf(corral.ErrUnavailable, "", "it is not there")}
	if _, err := k.List(t.Context()); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	k.Optional = func() bool { return true }
	if list, err := k.List(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestSandboxLogs(t *testing.T) {
	state := stored(t, storedSandboxes)
	m := storedMachine()
	run := func(args ...string) (int, string, string) {
		t.Helper()
		return m.run(t, nil, append([]string{"sandbox", "logs", "--state-dir", state}, args...)...)
	}
	code, stdout, stderr := run("--all", "chat")
	want := `# 2026-01-02T03:04:06Z  container corral-chat-a of i
# 2026-01-02T03:04:06Z  setup command begins
one
two
# 2026-01-02T03:04:09Z  setup command: exit code 7 after 3.0s (12 bytes)
# it was not used: it failed
# 2026-01-02T03:04:10Z  removed
# 2026-01-02T03:05:00Z  container corral-chat-b of i, for the pool
`
	if code != 0 || stdout != want {
		t.Errorf("%d\n%s%s\nwant\n%s", code, stdout, stderr, want)
	}
	if code, stdout, _ = run("chat"); code != 0 || strings.Contains(stdout, "chat-a") || !strings.Contains(stdout, "chat-b") {
		t.Errorf("%d, %s", code, stdout)
	}
	// What the engine says of one that has ended since.
	if code, stdout, _ = run("mine"); code != 0 || !strings.Contains(stdout, "ended with code 137: out of memory\n") {
		t.Errorf("%d, %s", code, stdout)
	}
	var log api.SandboxLog
	if code, stdout, _ = run("--json", "--all", "chat"); code != 0 || json.Unmarshal([]byte(stdout), &log) != nil || len(log.Containers) != 2 ||
		log.Containers[0].Setup.Output != "one\n\x1b[31mtwo\a\n" || log.Containers[1].Ended != nil {
		t.Errorf("%d, %s", code, stdout)
	}
	// It can be read without an engine.
	m.err = map[string]error{"engine": errors.New("it is not there")}
	if code, stdout, _ = run("--all", "chat"); code != 0 || stdout != want {
		t.Errorf("%d, %s", code, stdout)
	}
	if code, _, stderr = run("none"); code == 0 || !strings.Contains(stderr, "corral sandbox ls") {
		t.Errorf("%d, %s", code, stderr)
	}
}

func TestSandboxStats(t *testing.T) {
	sandboxes.StatsGap, sandboxes.StatsEvery = time.Millisecond, time.Millisecond
	t.Cleanup(func() { sandboxes.StatsGap, sandboxes.StatsEvery = time.Second, 2*time.Second })
	state := stored(t, storedSandboxes)
	begin := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	use := func(after, cpu time.Duration) engine.Stats {
		return engine.Stats{At: begin.Add(after), Memory: 5e6, MemoryLimit: 2 << 30, CPU: cpu, CPULimit: 2, Pids: 3, PidsLimit: 512, OOMKills: 1}
	}
	m := storedMachine()
	m.eng.stats = map[string][]engine.Stats{"corral-chat-b": {use(0, time.Second), use(2*time.Second, 2*time.Second)}, "corral-mine-a": {{OOMKills: -1}}}
	run := func(args ...string) (int, string, string) {
		t.Helper()
		return m.run(t, nil, append([]string{"sandbox", "stats", "--state-dir", state}, args...)...)
	}
	code, stdout, stderr := run() // those that run, and of which something is noted
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != 0 || len(lines) != 2 || strings.Join(strings.Fields(lines[1]), " ") != "chat 0.50 / 2 4.8 MiB / 2 GiB 3 / 512 1 corral-chat-b" {
		t.Errorf("%d, %s%s", code, stdout, stderr)
	}
	var list []sandboxes.SandboxUse
	code, stdout, _ = run("--json", "chat", "mine")
	if code != 0 || json.Unmarshal([]byte(stdout), &list) != nil || len(list) != 2 || !list[0].Running || list[0].PidsLimit != 512 || list[1].Running || list[1].CPUs != nil {
		t.Errorf("%d, %s", code, stdout)
	}
	if code, stdout, _ = run("mine"); code != 0 || !strings.Contains(stdout, "mine  -") {
		t.Errorf("%d, %s", code, stdout)
	}
	for _, args := range [][]string{{"none"}, {"--watch", "--no-stream"}} {
		if code, stdout, stderr = run(args...); code == 0 || stdout != "" || !strings.Contains(stderr, "hint: ") {
			t.Errorf("%v: %d, %s%s", args, code, stdout, stderr)
		}
	}
	m.eng.err = corral.Errorf(errors.ErrUnsupported, "ask the engine's own tools", "this engine does not tell")
	if code, _, stderr = run("chat"); code == 0 || !strings.Contains(stderr, "does not tell") {
		t.Errorf("%d, %s", code, stderr)
	}
}

// A recreated sandbox is a fake of which a new container is asked.
type recreated struct {
	daemon.Executor
	name string
}

func (r recreated) Recreate(context.Context) (string, []string, error) {
	if r.name == "stuck" {
		return "", nil, corral.Errorf(corral.ErrUnavailable, "wait", "it cannot be made")
	}
	return "new-" + r.name, []string{"old-" + r.name}, nil
}

func TestSandboxRecreate(t *testing.T) {
	state := stored(t, storedSandboxes)
	config := filepath.Join(t.TempDir(), "config.json5")
	if err := os.WriteFile(config, []byte(`{sandbox: {image: "all"}, agents: {list: [{id: "main", sandbox: {image: "mains", setupCommand: "true"}}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	m := storedMachine()
	var opened []daemon.SandboxOptions
	m.box = func(o daemon.SandboxOptions) daemon.Executor {
		opened = append(opened, o)
		return recreated{&m.sandbox, o.Name}
	}
	run := func(args ...string) (int, string, string) {
		t.Helper()
		opened = nil
		return m.run(t, nil, append([]string{"sandbox", "recreate", "--config", config, "--state-dir", state}, args...)...)
	}
	code, stdout, stderr := run("chat")
	if code != 0 || stdout != "chat\n" || !strings.Contains(stderr, "go on in old-chat") || len(opened) != 1 {
		t.Fatalf("%d, %s%s, %v", code, stdout, stderr, opened)
	}
	// It is made by the configuration of whose it is, and stays whose it is.
	if o := opened[0]; o.Image != "mains" || o.SetupCommand != "true" || o.Owner != "main" || o.Key != "agent:main:telegram:1" {
		t.Errorf("%+v", o.Settings)
	}
	if code, stdout, _ = run("--json", "--image", "given", "--all"); code != 0 || len(opened) != 2 || opened[1].Name != "mine" || opened[1].Image != "given" || opened[1].Key != "" ||
		!strings.HasPrefix(stdout, `{"recreated":[{"name":"chat","container":"new-chat","left":["old-chat"]},{"name":"mine"`) {
		t.Errorf("%d, %s, %+v", code, stdout, opened)
	}
	if code, stdout, stderr = run("-q", "chat", "none"); code == 0 || stdout != "chat\n" || !strings.Contains(stderr, "no sandbox") || strings.Contains(stderr, "go on") {
		t.Errorf("%d, %s%s", code, stdout, stderr)
	}
	for _, args := range [][]string{{}, {"--all", "chat"}} {
		if code, _, _ = run(args...); code != 2 || len(opened) > 0 {
			t.Errorf("%v: %d, %v", args, code, opened)
		}
	}
}

// The shell is a command like any other, in the sandbox of that name.
func TestSandboxShell(t *testing.T) {
	state := stored(t, storedSandboxes)
	var m *fakeMachine
	run := func(args ...string) (int, string, string) {
		t.Helper()
		m = storedMachine()
		m.sandbox.Programs = map[string]fakeexec.Program{shellText: fakeexec.Print("in the shell\n", "", 4)}
		return m.run(t, nil, append([]string{"sandbox", "shell", "--state-dir", state}, args...)...)
	}
	code, stdout, stderr := run("chat")
	if code != 4 || stdout != "in the shell\n" || m.sandboxGot.Name != "chat" || m.sandboxGot.Owner != "main" || m.sandboxGot.Key != "agent:main:telegram:1" {
		t.Errorf("%d, %s%s, %+v", code, stdout, stderr, m.sandboxGot)
	}
	if code, _, _ = run("--image", "given", "mine"); code != 4 || m.sandboxGot.Name != "mine" || m.sandboxGot.Image != "given" {
		t.Errorf("%d, %+v", code, m.sandboxGot)
	}
	for args, want := range map[string]string{
		"none":              "no sandbox",
		"--agent main chat": "both say which",
		"--agent main":      "no gateway is running",
		"--session x":       "no gateway is running",
		"chat mine":         "",
	} {
		if code, _, stderr = run(strings.Fields(args)...); code == 0 || code == 4 || !strings.Contains(stderr, want) || len(m.opened) > 0 {
			t.Errorf("%s: %d, %s, %v", args, code, stderr, m.opened)
		}
	}
}
