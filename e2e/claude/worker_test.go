//go:build e2e

// Package claude_test has corral worker claude run the tools of Claude's sessions in real
// sandboxes. The API is a server of the tests.
package claude_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/claudeapi"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A step is a call of a tool, and what its answer looks like.
type step struct {
	tool  string
	input map[string]any
	want  string // regular expression for all of it
	fails bool
}

func bash(command, want string) step {
	return step{"bash", map[string]any{"command": command}, want, false}
}

const silent = `\(no output\)` // by the SDK

var steps = []step{
	bash("echo hello; id -u >/dev/null", "hello\n"),
	// The shell seems to live on.
	bash("mkdir -p src/deep && cd src && export A='a b' && b=(1 '2 3') && f() { echo f $A ${b[1]}; }", silent),
	bash("pwd; f; echo ${#b[@]}", "/workspace/src\nf a b 2 3\n2\n"),
	{"bash", map[string]any{"command": "cd deep; echo out; echo err >&2; exit 3"}, "out\nerr\nexit code 3", true},
	bash("pwd; bash -c 'cd /'; (cd /); set -x; cd .. 2>/dev/null", "/workspace/src/deep\n.*cd ..\n"),
	{"bash", map[string]any{"command": "-x"}, ".*-x: command not found\nexit code 127", true},
	{"bash", map[string]any{"command": "cd /; echo before; sleep 60", "timeout_ms": 1500}, "before\ntimed out, .*", true},
	bash("pwd; env | grep -c ANTHROPIC; true", "/\n0\n"),
	{"bash", map[string]any{"restart": true}, "bash session restarted", false},
	bash("pwd; echo ${A-unset}", "/workspace\nunset\n"),
	{"bash", map[string]any{"command": "head -c 300000 /dev/zero | tr '\\0' x"}, "x{50,}(?s:.*)bytes(?s:.*)x{50,}", false},

	{"write", map[string]any{"file_path": "src/new/a.go", "content": "package a\n\nvar x = 1 // é\n"}, "wrote 27 bytes to src/new/a.go", false},
	{"read", map[string]any{"file_path": "/workspace/src/new/a.go"}, "package a\n\nvar x = 1 // é\n", false},
	{"read", map[string]any{"file_path": "src/new/a.go", "view_range": []int{1, 2}}, "package a\n", false},
	{"read", map[string]any{"file_path": "src/new/a.go", "view_range": []int{3, 0}}, "var x = 1 // é", false},
	{"read", map[string]any{"file_path": "nothing"}, ".*No such file or directory.*", true},
	{"edit", map[string]any{"file_path": "src/new/a.go", "old_string": "a", "new_string": "b"}, "old_string appears 4 times.*", true},
	{"edit", map[string]any{"file_path": "src/new/a.go", "old_string": "x = 1", "new_string": "x = 2"}, `edited src/new/a.go \(1 replacement\(s\)\)`, false},
	bash("cat src/new/a.go; head -c 300000 /dev/zero >big; chmod +x src/new/a.go", "package a\n\nvar x = 2 // é\n"),
	{"read", map[string]any{"file_path": "big"}, "big has more than 262144 bytes.*", true},
	{"write", map[string]any{"file_path": "src/new/a.go", "content": "package b\n"}, "wrote .*", false},
	bash("test -x src/new/a.go && touch -d 2001-01-01 src/old.go && touch 'src/a b.go'", silent),
	{"glob", map[string]any{"pattern": "**/*.go"}, "(/workspace/src/a b.go\n/workspace/src/new/a.go|/workspace/src/new/a.go\n/workspace/src/a b.go)\n/workspace/src/old.go", false},
	{"glob", map[string]any{"pattern": "*.rs", "path": "src"}, "no matches", false},
	{"grep", map[string]any{"pattern": `package\s\w`, "path": "src"}, "src/new/a.go:1:package b", false},
	{"grep", map[string]any{"pattern": "nowhere"}, "no matches", false},
	{"grep", map[string]any{"pattern": "(", "path": "src"}, "(?s:.+)", true},
	bash("cat skills/tests/SKILL.md", "# Tests\n"),
}

func TestWorker(t *testing.T) {
	engine := enginetest.New(t)
	if _, err := (images.Store{Engine: engine.Images()}).Ensure(t.Context(), images.Default, nil); err != nil {
		t.Fatal(err)
	}
	program, state, dir := built.Program(t, "cmd/corral"), testdir.New(t), t.TempDir()
	built.Program(t, "cmd/corral-worker-claude") // beside it
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte(claudeapi.Key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the gateways have ended
		if out, err := exec.Command(program, "sandbox", "rm", "--all", "--state-dir", state).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	gateway := func() *exec.Cmd {
		return start(t, dir, nil, program, "gateway", "--state-dir", state, "--sandbox", "all")
	}
	first := gateway()
	c := ready(t, state)
	api := claudeapi.New(t)
	worker := start(t, dir, []string{"ANTHROPIC_ENVIRONMENT_ID=" + claudeapi.Environment, "ANTHROPIC_BASE_URL=" + api.URL},
		program, "worker", "claude", "--state-dir", state, "--key-file", key)

	s := &claudeapi.Session{ID: "sesn_1", Skill: map[string]string{"SKILL.md": "# Tests\n"}}
	for _, st := range steps {
		s.Calls = append(s.Calls, claudeapi.Call{Tool: st.tool, Input: st.input})
	}
	select {
	case <-api.Add(s).Ended():
	case <-time.After(4 * time.Minute):
		t.Fatal("the session was not given back")
	}
	for i, r := range s.Results() {
		st := steps[i]
		if r.Error != st.fails || !regexp.MustCompile("^(?:"+st.want+")$").MatchString(r.Text) {
			t.Errorf("%s %v: %t %.300q, want %q", st.tool, st.input, r.Error, r.Text, st.want)
		}
	}
	if len(s.Results()) != len(steps) {
		t.Errorf("%d answers, want %d", len(s.Results()), len(steps))
	}

	// What ran is on record, as Claude said it.
	list, err := c.Sessions(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"bash -c -- 'echo hello; id -u", "Claude session sesn_1: write src/new/a.go", `"host":"sandbox"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the record has no %q:\n%.3000s", want, text)
		}
	}
	if out, err := exec.Command(program, "exec", "--state-dir", state, "ls skills").CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("the skills are left: %v: %s", err, out)
	}
	// A command outlives a gateway that is killed, and the worker finds it.
	s = api.Add(&claudeapi.Session{ID: "sesn_2", Calls: []claudeapi.Call{{Tool: "bash", Input: map[string]any{"command": "echo begun; sleep 3; echo survived"}}}})
	running := func(st session.Status) bool {
		return st.State == session.Running && strings.Contains(st.Command, "survived")
	}
	for limit := time.Now().Add(time.Minute); !slices.ContainsFunc(list, running); time.Sleep(50 * time.Millisecond) {
		if list, err = c.Sessions(t.Context(), true); err != nil || time.Now().After(limit) {
			t.Fatal(err, list)
		}
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // which says that it was killed
	gateway()
	select {
	case <-s.Ended():
	case <-time.After(time.Minute):
		t.Fatal("the session was not given back")
	}
	if got := s.Results(); len(got) != 1 || got[0].Error || got[0].Text != "begun\nsurvived\n" {
		t.Errorf("%+v", got)
	}

	end(t, worker)
	if list, err = c.Sessions(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for _, st := range list {
		p, err := c.Session(t.Context(), st.ID)
		if err == nil {
			err = p.Discard(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// start starts a program, which the end of the test ends.
func start(t *testing.T, dir string, env []string, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Dir = append(os.Environ(), env...), dir
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			end(t, cmd)
		}
		if t.Failed() {
			t.Logf("%s: %.8000s", args[0], log.String())
		}
	})
	return cmd
}

// end ends a program in good order.
func end(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%q ended with %v", cmd.Args, err)
	}
}

// ready waits for a gateway.
func ready(t *testing.T, state string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Socket: filepath.Join(state, "gateway.sock")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for range 600 {
		if err = c.Ready(t.Context()); err == nil {
			return c
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("the gateway is not ready: %v", err)
	return nil
}
