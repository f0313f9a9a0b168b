package runshell

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
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/pathenv"
)

func TestDirectories(t *testing.T) {
	for _, profile := range []pathenv.Profile{pathenv.ProfileQwen, pathenv.ProfileAsimi} {
		tool := onHost(t, Config{Profile: profile})
		root := tool.cfg.Root
		for link, to := range map[string]string{"out": "/tmp", "up": "..", "in": "src", "dangling": "nowhere"} {
			if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		const (
			absolute = "invalid input: Directory cannot be absolute. Must be relative to the project root directory."
			outside  = "invalid input: Directory must be inside the project root directory."
			missing  = "invalid input: Directory must exist."
		)
		for dir, want := range map[string]string{
			"/tmp": absolute, root: absolute, root + "/src": absolute,
			"..": outside, "src/../..": outside, "../" + filepath.Base(root): outside, "out": outside, "up": outside, "out/x/../..": outside,
			"nope": missing, "src/nope": missing, "file": missing, "file/x": missing, "dangling": missing, "src\x00": "invalid input: ",
		} {
			_, err := tool.Run(t.Context(), Input{Command: "pwd", Directory: dir})
			if err == nil || !strings.HasPrefix(err.Error(), want) || !errors.Is(err, corral.ErrDir) && !errors.Is(err, corral.ErrInvalid) {
				t.Errorf("%q: %v", dir, err)
			}
		}
		if o := do(t, tool, Input{Command: "pwd -P", Directory: "in"}); o.Stdout != root+"/src\n" {
			t.Error(o.Text())
		}
	}
}

// If this program cannot see the directories, it checks only their names.
func TestDirectoriesElsewhere(t *testing.T) {
	ex := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"bash -c pwd": func(*fakeexec.IO) int { return 0 }}}
	defer ex.Close()
	rec := &recorder{Executor: ex}
	tool := newTool(t, Config{Executor: rec, Dir: "/project"})
	for dir, want := range map[string]string{"": "/project", "a/b": "/project/a/b", "a/../b/": "/project/b"} {
		if do(t, tool, Input{Command: "pwd", Directory: dir}); rec.last.Dir != want {
			t.Errorf("%q: %s", dir, rec.last.Dir)
		}
	}
	for _, dir := range []string{"..", "a/../../b", "/project"} {
		if _, err := tool.Run(t.Context(), Input{Command: "pwd", Directory: dir}); !errors.Is(err, corral.ErrDir) {
			t.Errorf("%q: %v", dir, err)
		}
	}
	if got := rec.last.Args; len(got) != 3 || got[0] != "bash" || got[1] != "-c" || got[2] != "pwd" || rec.last.Shell != "" {
		t.Errorf("%q", got)
	}
}

// The notice, which is the same for every command, is only in JSON.
func TestWarnings(t *testing.T) {
	ex := anything(t, "x")
	ex.Info.Notice = "1 variable left out: A"
	r, err := newTool(t, Config{Executor: ex}).Call(t.Context(), Name, json.RawMessage(`{"command": "x", "is_background": false, "shell": "zsh"}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"notice":"1 variable left out: A"`) || !strings.Contains(string(text), `\"shell\" is not known`) {
		t.Errorf("%s, %v", text, err)
	}
	if text := r.Text(); strings.Contains(text, "left out") || !strings.HasSuffix(text, "\nWarning: The parameter \"shell\" is not known and is ignored.") {
		t.Error(text)
	}
}

// recorder remembers the last command.
type recorder struct {
	corral.Executor
	last corral.Command
}

func (r *recorder) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	r.last = cmd
	return r.Executor.Start(ctx, cmd)
}

// Cancelling a call kills the command in its foreground, but none in the background.
func TestCancel(t *testing.T) {
	tool := onHost(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	background, err := tool.Run(ctx, Input{Command: "sleep 60", IsBackground: true})
	if err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(tool.cfg.Root, "pid")
	go func() {
		defer cancel()
		for range 3000 { // the first command waits for the warden to be built
			if _, err := os.Stat(pidFile); err == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	o, err := tool.Run(ctx, Input{Command: "echo before; sleep 60 & echo $! > new; mv new pid; wait"})
	if err != nil || o.Error == nil || *o.Error != "Command was cancelled by user before it could complete." || o.Stdout != "before\n" || o.ExitCode != nil || *o.Signal != 15 {
		t.Errorf("%v: %s", err, o.Text())
	}
	if o := do(t, tool, Input{Command: "for i in {1..100}; do grep -qs '^State:[[:space:]]*[^Z]' /proc/$(cat pid)/status || { echo gone; break; }; sleep 0.05; done"}); o.Stdout != "gone\n" {
		t.Errorf("the foreground lives: %s", o.Text())
	}
	if !alive(background.BackgroundPIDs[0]) {
		t.Error("the background was killed")
	}
}

func TestTimeout(t *testing.T) {
	tool := onHost(t, Config{Timeout: 300 * time.Millisecond})
	o := do(t, tool, Input{Command: "echo before; sleep 60 | cat"})
	if o.Error == nil || *o.Error != "Command timed out after 300ms before it could complete." || o.ExitCode != nil || *o.Signal != 15 || o.Stdout != "before\n" {
		t.Error(o.Text())
	}
	o = do(t, tool, Input{Command: "trap 'exit 5' TERM; sleep 60 & wait"})
	if o.Error == nil || o.ExitCode == nil || *o.ExitCode != 5 {
		t.Error(o.Text())
	}
	// There is no time-out in the background.
	o = do(t, tool, Input{Command: "sleep 0.7; exit 6", IsBackground: true})
	p, err := tool.cfg.Executor.Attach(t.Context(), o.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 6 {
		t.Errorf("%v, %v", exit, err)
	}
}

// A command that ended in the foreground and left nothing is forgotten. Others can be
// followed by their ID.
func TestWhatIsKept(t *testing.T) {
	tool := onHost(t, Config{MaxOutput: 1000})
	for _, tc := range []struct {
		in   Input
		kept bool
	}{
		{Input{Command: "true"}, false},
		{Input{Command: "exit 3"}, false},
		{Input{Command: "sleep 60 &"}, true},
		{Input{Command: "seq 1000"}, true},
		{Input{Command: "seq 1000", IsBackground: true}, true},
	} {
		o := do(t, tool, tc.in)
		if (o.SessionID != "") != tc.kept {
			t.Fatalf("%s: %q", tc.in.Display(), o.SessionID)
		}
		if !tc.kept {
			continue
		}
		p, err := tool.cfg.Executor.Attach(t.Context(), o.SessionID)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := p.Log().Stat(t.Context()); err != nil || tc.in.Command == "seq 1000" && st.Size != 3893 {
			t.Errorf("%+v, %v", st, err)
		}
		if tc.in.Command == "seq 1000" && (!o.Truncated || len(o.Stdout) > 1100 || !strings.HasPrefix(o.Stdout, "1\n2\n") || !strings.HasSuffix(o.Stdout, "999\n1000\n")) {
			t.Errorf("%q", o.Stdout)
		}
	}
}

// If the executor refuses a command, that is an error; if it fails, that is a result.
func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		fault  error
		op     fakeexec.Op
		is     error
		failed string
	}{
		{corral.Errorf(corral.ErrDenied, "", "denied: the guard says no"), fakeexec.OpStart, corral.ErrDenied, ""},
		{corral.Errorf(corral.ErrInvalid, "", "too much"), fakeexec.OpStart, corral.ErrInvalid, ""},
		{corral.Errorf(corral.ErrDir, "", "src: no such directory"), fakeexec.OpStart, corral.ErrDir, ""},
		{corral.Errorf(corral.ErrUnavailable, "start the engine", "no engine answers"), fakeexec.OpStart, nil, "no engine answers: start the engine"},
		{corral.Errorf(corral.ErrLost, "", "the answer was lost"), fakeexec.OpStart, nil, "the answer was lost"},
		{corral.Errorf(corral.ErrLost, "", "nobody knows how it ended"), fakeexec.OpWait, nil, "nobody knows how it ended"},
	} {
		for _, background := range []bool{false, true} {
			ex := anything(t, "x")
			ex.Fault = func(op fakeexec.Op, _ string) error {
				if op == tc.op {
					return tc.fault
				}
				return nil
			}
			o, err := newTool(t, Config{Executor: ex}).Run(t.Context(), Input{Command: "x", IsBackground: background})
			if !errors.Is(err, tc.is) || tc.is == nil && err != nil {
				t.Errorf("%v: %v", tc.fault, err)
			}
			if tc.is == nil && (o.Error == nil || !strings.HasPrefix(*o.Error, tc.failed) || o.ExitCode != nil || o.Signal != nil) {
				t.Errorf("%v: %s", tc.fault, o.Text())
			}
		}
	}
}

// For a server of tools, every call has a result that a model can read.
func TestToolCall(t *testing.T) {
	tool := onHost(t, Config{ExcludeTools: []string{"run_shell_command(rm)"}})
	for arguments, want := range map[string]string{
		`{"command": "echo hi", "is_background": "False", "isBackground": true}`: `{"stdout":"hi\n","stderr":"","exitCode":0,"signal":null,"error":null,"pid":PID,"backgroundPids":[],"warnings":["The parameter \"isBackground\" is not known and is ignored: did you mean \"is_background\"?"]}`,
		`{"command": "rm x", "is_background": false}`:                            `{"stdout":"","stderr":"","exitCode":null,"signal":null,"error":"Command 'rm x' is blocked by configuration: change excludeTools to allow it","pid":null,"backgroundPids":[]}`,
		`{"command": "ls"}`:   `{"stdout":"","stderr":"","exitCode":null,"signal":null,"error":"invalid input: is_background is required: give true for what runs until it is stopped, false for what ends by itself","pid":null,"backgroundPids":[]}`,
		`{"command": ["ls"]}`: `{"stdout":"","stderr":"","exitCode":null,"signal":null,"error":"invalid input: command: [\"ls\"] does not fit: give a string","pid":null,"backgroundPids":[]}`,
	} {
		r, err := tool.Call(t.Context(), Name, json.RawMessage(arguments))
		if err != nil {
			t.Fatal(err)
		}
		o := r.(Output)
		pid := none(o.PID, func(n int) string { b, _ := json.Marshal(n); return string(b) })
		got, err := json.Marshal(r)
		if err != nil || string(got) != strings.Replace(want, "PID", pid, 1) || r.Failed() != (o.Error != nil) {
			t.Errorf("%s: %v\n%s\n%s", arguments, err, got, want)
		}
	}
	if _, err := tool.Call(t.Context(), "exec", nil); !errors.Is(err, corral.ErrNotFound) {
		t.Error(err)
	}
}
