package runshell

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
)

// asimiSpec are the sentences about behaviour in asimi's specification of
// run_shell_command, each with a test.
var asimiSpec = []struct {
	name   string
	quotes []string
	check  func(t *testing.T)
}{
	{"definition", []string{
		"func (t RunShellCommand) Name() string {\n\treturn \"run_shell_command\"\n}",
		"return \"This tool executes a given shell command. On Windows, it uses `cmd.exe /c`. On other platforms, it uses `bash -c`. It can start background processes.\"",
	}, func(t *testing.T) {
		var tool RunShellCommand
		if tool.Name() != "run_shell_command" || tool.Description() != "This tool executes a given shell command. On Windows, it uses `cmd.exe /c`. On other platforms, it uses `bash -c`. It can start background processes." {
			t.Error(tool.Name(), tool.Description())
		}
		if _, err := tool.Call(t.Context(), `{"command": "ls"}`); !errors.Is(err, corral.ErrUnavailable) {
			t.Error(err)
		}
	}},
	{"invalid input", []string{
		"return \"\", fmt.Errorf(\"invalid input: %w\", err)",
	}, func(t *testing.T) {
		tool := asimi(t, Config{})
		for _, text := range []string{"", "{not json", "[]", `"ls"`, `{}`, `{"command": ""}`, `{"command": {}}`, `{"command": "ls"} {}`, `{"command": "ls", "directory": "/tmp"}`} {
			if out, err := tool.Call(t.Context(), text); out != "" || err == nil || !strings.HasPrefix(err.Error(), "invalid input: ") {
				t.Errorf("%s: %s, %v", text, out, err)
			}
		}
	}},
	{"input", []string{
		"type RunShellCommandInput struct {\n\tCommand   string `json:\"command\"`\n\tDescription string `json:\"description\"`\n\tDirectory string `json:\"directory\"`\n}",
		"*   **Required:** Yes", "*   **Required:** No",
	}, func(t *testing.T) {
		in := asimi(t, Config{}).Tool.Definitions()[0].Input
		if !slices.Equal(in.PropertyOrder, []string{"command", "description", "directory"}) || !slices.Equal(in.Required, []string{"command"}) {
			t.Errorf("%q, %q", in.PropertyOrder, in.Required)
		}
		o := call(t, asimi(t, Config{}), `{"command": "echo hi", "is_background": true}`)
		if o["stdout"] != "hi\n" || !strings.Contains(o["warnings"].([]any)[0].(string), "is_background") {
			t.Error(o)
		}
	}},
	{"syntax", []string{
		"It can include pipes, redirection, and command chaining (e.g., `&&`, `||`, `;`).",
		"This means shell-specific syntax and features are available.",
	}, func(t *testing.T) {
		o := call(t, asimi(t, Config{}), `{"command": "echo b a | tr ' ' '\\n' | sort > f && cat f || echo no; [[ ab == a* ]] && echo ${#PWD} >/dev/null; a=(1 2 3); echo ${a[1]} $((1+2))"}`)
		if o["stdout"] != "a\nb\n2 3\n" || o["stderr"] != "" {
			t.Error(o)
		}
	}},
	{"directory", []string{
		"If omitted, the command runs in the project's root directory. Absolute paths are not permitted.",
		"The command's working directory is resolved from the `directory` parameter, relative to the project root.",
	}, func(t *testing.T) {
		tool := asimi(t, Config{})
		if o := call(t, tool, `{"command": "pwd"}`); o["stdout"] != tool.Tool.cfg.Root+"\n" {
			t.Error(o)
		}
		if o := call(t, tool, `{"command": "pwd", "directory": "src"}`); o["stdout"] != tool.Tool.cfg.Root+"/src\n" {
			t.Error(o)
		}
		if _, err := tool.Call(t.Context(), `{"command": "pwd", "directory": "/"}`); !errors.Is(err, corral.ErrDir) {
			t.Error(err)
		}
	}},
	{"output", []string{
		"*   **`stdout`:** The complete standard output of the command as a string.",
		"*   **`stderr`:** The complete standard error of the command as a string.",
		"*   **`exitCode`:** The integer exit code of the process. `0` typically indicates success. `null` if the process was terminated by a signal.",
		"*   **`signal`:** The numeric signal that terminated the process (e.g., `15` for `SIGTERM`), if applicable. `null` otherwise.",
		"`null` if the process spawned successfully, even if it later exited with an error.",
		"*   **`pid`:** The process ID of the main command process.",
		"This is not supported on Windows and will be an empty array.",
	}, func(t *testing.T) {
		tool := asimi(t, Config{})
		for arguments, want := range map[string]map[string]any{
			`{"command": "echo out; echo err >&2"}`:      {"stdout": "out\n", "stderr": "err\n", "exitCode": 0.0, "signal": nil},
			`{"command": "exit 3"}`:                      {"stdout": "", "stderr": "", "exitCode": 3.0, "signal": nil},
			`{"command": "kill -TERM $$"}`:               {"stdout": "", "stderr": "", "exitCode": nil, "signal": 15.0},
			`{"command": "sh -c 'kill -9 $$'; exit $?"}`: {"stdout": "", "stderr": "", "exitCode": 137.0, "signal": nil},
		} {
			got := call(t, tool, arguments)
			want["error"], want["backgroundPids"], want["pid"] = nil, []any{}, got["pid"]
			if got["stderr"] != "err\n" { // bash may report the signal
				got["stderr"] = ""
			}
			if !reflect.DeepEqual(got, want) || got["pid"].(float64) < 2 {
				t.Errorf("%s: %v", arguments, got)
			}
		}
		o := call(t, tool, `{"command": "echo $$; exec bash -c 'echo $PPID; seq 5000'"}`)
		if lines := strings.Split(o["stdout"].(string), "\n"); len(lines) != 5003 || lines[0] != text(o["pid"]) {
			t.Errorf("%d lines, %s, %v", len(lines), lines[0], o["pid"])
		}
	}},
	{"environment", []string{
		"The executed command inherits the environment variables of the Gemini CLI process, with one addition:",
		"`ASIMI_CLI=1`: This variable is set, allowing scripts to detect if they are being run from within the Gemini CLI.",
	}, func(t *testing.T) {
		if o := call(t, asimi(t, Config{}), `{"command": "echo $ASIMI_CLI$QWEN_CODE $HOME"}`); !strings.HasPrefix(o["stdout"].(string), "1 /") {
			t.Error(o)
		}
	}},
	{"denylist", []string{
		"The user can configure a list of commands that are explicitly forbidden (e.g., `run_shell_command(rm)`). Any attempt to run a denied command will fail.",
	}, func(t *testing.T) {
		tool := asimi(t, Config{ExcludeTools: []string{"run_shell_command(rm)"}, Approve: answers(t, AllowAlways)})
		for _, c := range []string{"rm x", "ls; rm x", "env rm x"} {
			if _, err := tool.Tool.Run(t.Context(), Input{Command: c}); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "is blocked by configuration") {
				t.Errorf("%s: %v", c, err)
			}
		}
	}},
	{"allowlist", []string{
		"If this is configured, any command *not* on the list will be rejected or require confirmation.",
	}, func(t *testing.T) {
		core := []string{"run_shell_command(git)", "run_shell_command(npm)"}
		if _, err := asimi(t, Config{CoreTools: core}).Call(t.Context(), `{"command": "ls"}`); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "not in the allowed commands list") {
			t.Errorf("rejected: %v", err)
		}
		if _, err := asimi(t, Config{CoreTools: core, Approve: answers(t, AllowOnce)}).Call(t.Context(), `{"command": "ls"}`); err != nil {
			t.Errorf("confirmed: %v", err)
		}
		if _, err := asimi(t, Config{CoreTools: core, Approve: answers(t)}).Call(t.Context(), `{"command": "npm test"}`); err != nil {
			t.Errorf("on the list: %v", err)
		}
	}},
	{"confirmation", []string{
		"If a command is not explicitly allowed by the configuration or a previous approval in the current session, the CLI will pause and prompt the user for confirmation. The `description` parameter is vital for this step. If the user denies the request, the tool call will fail.",
		"This description will be shown to the user in a confirmation dialog if the command is not already on a pre-approved list.",
	}, func(t *testing.T) {
		var asked []Request
		next := []Answer{AllowOnce, AllowAlways, DenyOnce}
		tool := asimi(t, Config{Approve: func(_ context.Context, r Request) (Answer, error) {
			asked = append(asked, r)
			return next[len(asked)-1], nil
		}})
		for i, command := range []string{"git status", "git status", "git status", "git log"} {
			_, err := tool.Call(t.Context(), `{"command": "`+command+`", "description": "Look at it"}`)
			if (err != nil) != (i == 3) || err != nil && !errors.Is(err, corral.ErrDenied) {
				t.Errorf("%d: %v", i, err)
			}
		}
		// What was approved is not the same with a variable by which it runs another program.
		if v := tool.Tool.Check("GIT_SSH_COMMAND=./evil git status"); v.Outcome != policy.Asked {
			t.Errorf("%+v", v)
		}
		if len(asked) != 3 || asked[0].Display != "git status (Look at it)" || !slices.Equal(asked[2].Programs, []string{"git"}) || !slices.Equal(asked[1].Remember, []string{"git status"}) {
			t.Errorf("%+v", asked)
		}
	}},
	{"background", []string{
		"On **Linux/macOS**, a command can be run in the background by appending `&`. The `backgroundPids` array in the return value will be populated.",
		"*   **`backgroundPids`:** An array of process IDs for any background tasks spawned by the command.",
	}, func(t *testing.T) {
		o := call(t, asimi(t, Config{}), `{"command": "sleep 60 & echo $!; (sleep 60 & echo $!); exit 4"}`)
		var pids []string
		for _, pid := range o["backgroundPids"].([]any) {
			pids = append(pids, text(pid))
		}
		want := strings.Fields(o["stdout"].(string))
		slices.Sort(want)
		slices.Sort(pids)
		if !slices.Equal(pids, want) || o["exitCode"] != 4.0 {
			t.Error(o)
		}
	}},
	{"statelessness", []string{
		"Changes to the environment (like `cd` or setting a shell variable) in one call will **not** persist to the next.",
	}, func(t *testing.T) {
		tool := asimi(t, Config{})
		call(t, tool, `{"command": "cd src; export A=1; B=2; f() { :; }; umask 000"}`)
		if o := call(t, tool, `{"command": "pwd; echo $A$B; type f"}`); o["stdout"] != tool.Tool.cfg.Root+"\n\n" {
			t.Error(o)
		}
	}},
	{"substitution", []string{
		"command substitution patterns like `$(...)`, `<(...)`, `>(...)`, and backticks (`` `...` ``) are **disallowed** and will cause the tool call to fail before execution.",
	}, func(t *testing.T) {
		tool := asimi(t, Config{CoreTools: []string{Name}})
		for _, c := range []string{"touch f; echo $(date)", "touch f; cat <(ls)", "touch f; ls > >(cat)", "touch f; echo `date`", "touch f; sh -c 'echo $(date)'", "touch f; x=\"$(date)\"", "touch f; cat <<E\n$(date)\nE", "touch f; if"} {
			if _, err := tool.Tool.Run(t.Context(), Input{Command: c}); !errors.Is(err, corral.ErrDenied) {
				t.Errorf("%s: %v", c, err)
			}
		}
		for _, c := range []string{"test ! -e f", "echo $((1+2))", "echo '$(date)' '`date`'", "true # $(date)", "cat <<'E'\n$(date) `date`\nE", `echo "\$(date)"`} {
			if o, err := tool.Tool.Run(t.Context(), Input{Command: c}); err != nil || *o.ExitCode != 0 {
				t.Errorf("%s: %v, %s", c, err, o.Text())
			}
		}
	}},
	{"error handling", []string{
		"A non-zero `exitCode` or a non-empty `stderr` should be interpreted as a potential failure.",
	}, func(t *testing.T) {
		if o := call(t, asimi(t, Config{}), `{"command": "ls nowhere"}`); o["exitCode"] != 2.0 || o["stderr"] == "" || o["error"] != nil {
			t.Error(o)
		}
	}},
}

func TestAsimiSpec(t *testing.T) {
	for _, s := range asimiSpec {
		t.Run(s.name, s.check)
	}
}

func asimi(t *testing.T, cfg Config) RunShellCommand {
	t.Helper()
	cfg.Profile = pathenv.ProfileAsimi
	return RunShellCommand{onHost(t, cfg)}
}

// call makes a call that must not fail, and returns its JSON.
func call(t *testing.T, tool RunShellCommand, input string) map[string]any {
	t.Helper()
	out, err := tool.Call(t.Context(), input)
	if err != nil {
		t.Fatalf("%s: %v", input, err)
	}
	var o map[string]any
	if err := json.Unmarshal([]byte(out), &o); err != nil {
		t.Fatal(err)
	}
	delete(o, "sessionId")
	return o
}

func text(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// answers is an Approver that gives these answers, and must not be asked more often.
func answers(t *testing.T, list ...Answer) Approver {
	return func(_ context.Context, r Request) (Answer, error) {
		if len(list) == 0 {
			t.Errorf("asked about %s: %s", r.Display, r.Reason)
			return DenyOnce, nil
		}
		next := list[0]
		list = list[1:]
		return next, nil
	}
}
