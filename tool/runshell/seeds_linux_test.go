package runshell

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// qwenDocs are the sentences about behaviour in the documents of Qwen Code's
// run_shell_command, each with a test. The documents have the same content in two
// languages.
var qwenDocs = []struct {
	name   string
	quotes []string
	check  func(t *testing.T)
}{
	{"shell", []string{
		"Windows では、コマンドは `cmd.exe /c` で実行されます。他のプラットフォームでは、コマンドは `bash -c` で実行されます。",
		"在 Windows 上，命令将通过 `cmd.exe /c` 执行；在其他平台上，命令将通过 `bash -c` 执行。",
	}, func(t *testing.T) {
		o := do(t, onHost(t, Config{}), Input{Command: `echo "${BASH_VERSION:+bash}"; tr '\0' '|' < /proc/$$/cmdline`})
		if !strings.HasPrefix(o.Stdout, "bash\nbash|-c|echo") {
			t.Errorf("%q", o.Stdout)
		}
	}},
	{"exact", []string{
		"`command` (string, 必須): 実行する正確な shell コマンド。",
		"`command` (string, 必填): 要执行的确切 shell 命令。",
	}, func(t *testing.T) {
		tool := onHost(t, Config{})
		for text, want := range map[string]string{
			"ls # comment":                     "",
			"cat <<EOF\nin a document; &\nEOF": "in a document; &\n",
			"echo a\\":                         "a\\\n",
			`echo "$BASH_EXECUTION_STRING"`:    "echo \"$BASH_EXECUTION_STRING\"\n",
		} {
			o := do(t, tool, Input{Command: text})
			if want == "" {
				want = "scripts\nsrc\n"
			}
			if o.Stdout != want || *o.ExitCode != 0 {
				t.Errorf("%q: %s", text, o.Text())
			}
		}
		if _, err := tool.Run(t.Context(), Input{Command: " \n"}); !errors.Is(err, corral.ErrInvalid) || err.Error() != "invalid input: Command cannot be empty." {
			t.Errorf("no command: %v", err)
		}
	}},
	{"description", []string{
		"`description` (string, 任意): コマンドの目的についての簡単な説明で、ユーザーに表示されます。",
		"`description` (string, 可选): 命令用途的简要描述，将显示给用户。",
	}, func(t *testing.T) {
		if got := (Input{Command: "ls", Description: "List\nfiles"}).Display(); got != "ls (List files)" {
			t.Error(got)
		}
		if got := (Input{Command: "ls"}).Display(); got != "ls" {
			t.Error(got)
		}
	}},
	{"directory", []string{
		"`directory` (string, 任意): コマンドを実行するディレクトリ（プロジェクトルートからの相対パス）。指定しない場合、コマンドはプロジェクトルートで実行されます。",
		"`directory` (string, 可选): 执行命令的目录（相对于项目根目录）。如果未提供，则命令在项目根目录中运行。",
	}, func(t *testing.T) {
		tool := onHost(t, Config{})
		for dir, want := range map[string]string{"": "", "src": "/src", "./src/": "/src", "src/../scripts": "/scripts", ".": ""} {
			if o := do(t, tool, Input{Command: "pwd", Directory: dir}); o.Stdout != tool.cfg.Root+want+"\n" {
				t.Errorf("%q: %s", dir, o.Text())
			}
		}
	}},
	{"is_background is required", []string{
		"`is_background` (boolean, 必須): コマンドをバックグラウンドで実行するかどうか。",
		"`is_background` パラメータは、**すべてのコマンド実行で必須**です。",
		"**注意:** `is_background` パラメータは必須であり、すべてのコマンド実行で明示的に指定する必要があります。",
		"手動でバックグラウンド実行するためにコマンドに `&` を追加することも可能ですが、`is_background` パラメータの指定は依然として必須です。",
		"`is_background` (boolean, 必填): 是否在后台运行命令。",
		"**注意：** `is_background` 参数是必需的，每次命令执行时都必须明确指定。",
		"你也可以在命令中添加 `&` 来手动后台执行，但仍然必须指定 `is_background` 参数。",
	}, func(t *testing.T) {
		tool := onHost(t, Config{})
		for _, text := range []string{`{"command": "ls"}`, `{"command": "ls &"}`, `{"command": "ls", "is_background": null}`, `{"command": "ls", "is_background": "perhaps"}`} {
			if out, err := (RunShellCommand{tool}).Call(t.Context(), text); !errors.Is(err, corral.ErrInvalid) || !strings.HasPrefix(err.Error(), "invalid input: is_background") {
				t.Errorf("%s: %s, %v", text, out, err)
			}
		}
		if in := tool.Definitions()[0].Input; !slices.Contains(in.Required, "is_background") || in.Properties["is_background"].Type != "boolean" {
			t.Errorf("%+v", in)
		}
	}},
	{"either way", []string{
		"`is_background` パラメータを使用するか、コマンドに明示的に `&` を追加することで、コマンドをバックグラウンドで実行するかフォアグラウンドで実行するかを制御できます。",
		"`is_background=true` の場合、またはコマンドに `&` が含まれている場合、ツールは即座に返却し、プロセスはバックグラウンドで実行を続けます。`Background PIDs` フィールドにはバックグラウンドプロセスのプロセスIDが含まれます。",
		"你可以通过 `is_background` 参数控制命令是在后台还是前台运行，或者显式地在命令后添加 `&`。",
		"当 `is_background=true` 或命令包含 `&` 时，工具将立即返回，进程将在后台继续运行。`Background PIDs` 字段将包含后台进程的进程 ID。",
	}, func(t *testing.T) {
		tool := onHost(t, Config{})
		for _, in := range []Input{
			{Command: "sleep 60", IsBackground: true}, {Command: "sleep 60 &"}, {Command: "sleep 60 &", IsBackground: true},
			{Command: "(sleep 60 &)"}, {Command: "sleep 60 & disown"}, {Command: "setsid sleep 60 &"}, {Command: "sh -c 'sleep 60 & exit 1' || true"},
		} {
			began := time.Now()
			o := do(t, tool, in)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s took %v", in.Display(), took)
			}
			if len(o.BackgroundPIDs) != 1 || *o.ExitCode != 0 || !alive(o.BackgroundPIDs[0]) || o.SessionID == "" {
				t.Errorf("%s: %s", in.Display(), o.Text())
			}
		}
	}},
	{"foreground", []string{
		"完了まで待機してから次に進む一時的なコマンドに対しては `false` を設定します。",
		"对于应在继续执行之前完成的一次性命令，设置为 false。",
	}, func(t *testing.T) {
		if o := do(t, onHost(t, Config{}), Input{Command: "sleep 0.3; echo done"}); o.Stdout != "done\n" || len(o.BackgroundPIDs) != 0 {
			t.Error(o.Text())
		}
	}},
	{"execution information", []string{
		"- `Command`: 実行されたコマンド。", "- `Directory`: コマンドが実行されたディレクトリ。", "- `Stdout`: 標準出力ストリームからの出力。",
		"- `Stderr`: 標準エラー ストリームからの出力。", "- `Error`: サブプロセスによって報告されたエラー メッセージ。", "- `Exit Code`: コマンドの終了コード。",
		"- `Signal`: コマンドがシグナルによって終了された場合のシグナル番号。", "- `Background PIDs`: 起動されたバックグラウンド プロセスの PID のリスト。",
		"- `Command`：执行的命令。", "- `Directory`：命令运行的目录。", "- `Stdout`：标准输出流的输出内容。", "- `Stderr`：标准错误流的输出内容。",
		"- `Error`：子进程报告的任何错误信息。", "- `Exit Code`：命令的退出码。", "- `Signal`：如果命令被信号终止，则为信号编号。", "- `Background PIDs`：启动的任何后台进程的 PID 列表。",
	}, func(t *testing.T) {
		tool := onHost(t, Config{})
		for text, want := range map[string]string{
			"true":                           "Command: true\nDirectory: src\nStdout: (empty)\nStderr: (empty)\nError: (none)\nExit Code: 0\nSignal: (none)\nBackground PIDs: (none)",
			"echo out; echo err >&2; exit 3": "Command: echo out; echo err >&2; exit 3\nDirectory: src\nStdout: out\n\nStderr: err\n\nError: (none)\nExit Code: 3\nSignal: (none)\nBackground PIDs: (none)",
			"kill -9 $$":                     "Command: kill -9 $$\nDirectory: src\nStdout: (empty)\nStderr: (empty)\nError: (none)\nExit Code: (none)\nSignal: 9\nBackground PIDs: (none)",
		} {
			if got := do(t, tool, Input{Command: text, Directory: "src"}).Text(); got != want {
				t.Errorf("%q: %s", text, got)
			}
		}
		if got := (Output{Command: "x", BackgroundPIDs: []int{12, 13}}).Text(); !strings.HasSuffix(got, "\nBackground PIDs: 12, 13") || !strings.Contains(got, "\nDirectory: (root)\n") {
			t.Error(got)
		}
	}},
	{"interactive commands", []string{
		"ユーザーの対話入力を必要とするコマンドは避けてください。これによりツールがハングアップする可能性があります。可能であれば非対話フラグを使用してください（例: `npm init -y`）。",
		"避免使用需要交互式用户输入的命令，因为这可能导致工具挂起。如果可用，请使用非交互式标志（例如 `npm init -y`）。",
	}, func(t *testing.T) { // here commands get an empty standard input
		tool := onHost(t, Config{})
		if o := do(t, tool, Input{Command: "read answer; echo $?; cat"}); o.Stdout != "1\n" {
			t.Error(o.Text())
		}
		if o := do(t, tool, Input{Command: "npm init -y"}); o.Stdout != "npm init -y\n" {
			t.Error(o.Text())
		}
	}},
	{"error handling", []string{
		"コマンドが正常に実行されたかどうかを判断するには、`Stderr`、`Error`、`Exit Code` フィールドを確認してください。",
		"检查 `Stderr`、`Error` 和 `Exit Code` 字段以确定命令是否成功执行。",
	}, func(t *testing.T) {
		o := do(t, onHost(t, Config{}), Input{Command: "no-such-program"})
		if !strings.Contains(o.Stderr, "no-such-program") || o.Error != nil || *o.ExitCode != 127 || o.Failed() {
			t.Error(o.Text())
		}
		none := onHost(t, Config{})
		none.cfg.Executor = noBash{none.cfg.Executor}
		if o := do(t, none, Input{Command: "ls"}); o.Error == nil || !strings.HasPrefix(*o.Error, "bash could not be started: ") || o.PID != nil || !o.Failed() {
			t.Error(o.Text())
		}
	}},
	{"indicator", []string{
		"`is_background=true` を使用する場合、コマンドの説明には実行モードを明確に示すための `[background]` インジケータが含まれます。",
		"当使用 `is_background=true` 时，命令描述将包含 `[background]` 指示器，以清楚地显示执行模式。",
	}, func(t *testing.T) {
		in := Input{Command: "npm run dev", Directory: "web", Description: "Start the server", IsBackground: true}
		if got := in.Display(); got != "npm run dev [in web] [background] (Start the server)" {
			t.Error(got)
		}
	}},
	{"environment", []string{
		"`run_shell_command` がコマンドを実行する際、サブプロセスの環境に `QWEN_CODE=1` という環境変数を設定します。",
		"当 `run_shell_command` 执行命令时，它会在子进程的环境中设置 `QWEN_CODE=1` 环境变量。",
	}, func(t *testing.T) {
		for _, in := range []Input{{Command: "echo $QWEN_CODE$ASIMI_CLI"}, {Command: "echo $QWEN_CODE$ASIMI_CLI", IsBackground: true}} {
			if o := do(t, onHost(t, Config{}), in); o.Stdout != "1\n" {
				t.Error(o.Text())
			}
		}
	}},
	{"coreTools", []string{
		"例えば、`\"coreTools\": [\"run_shell_command(git)\"]` とすると、`git` コマンドのみが許可されます。一般的な `run_shell_command` を含めるとワイルドカードとして機能し、明示的にブロックされていないすべてのコマンドが許可されます。",
		"例如，`\"coreTools\": [\"run_shell_command(git)\"]` 将只允许执行 `git` 命令。如果包含通用的 `run_shell_command`，则相当于通配符，允许执行任何未被明确阻止的命令。",
	}, allowed(`{"coreTools": ["run_shell_command(git)"]}`, "git", "git log", "!ls", "!gitk", "!git status && ls")},
	{"all of it", []string{"一般的な `run_shell_command` を含めるとワイルドカードとして機能し", "如果包含通用的 `run_shell_command`，则相当于通配符"},
		allowed(`{"coreTools": ["run_shell_command", "run_shell_command(git)"]}`, "git", "ls", "$UNKNOWN")},
	{"excludeTools", []string{
		"例えば、`\"excludeTools\": [\"run_shell_command(rm)\"]` とすると、`rm` コマンドがブロックされます。",
		"例如，`\"excludeTools\": [\"run_shell_command(rm)\"]` 将阻止执行 `rm` 命令。",
	}, allowed(`{"excludeTools": ["run_shell_command(rm)"]}`, "!rm", "!rm x", "!/bin/rm x", "!sudo rm x", "!(rm x)", "!bash -c 'rm x'", "!echo a\nrm x", "rmdir x", "echo 'rm -rf /'")},
	{"chains", []string{
		"ツールは自動的に `&&`、`||`、または `;` でチェーンされたコマンドを分割し、各部分を個別に検証します。チェーンのいずれかの部分が許可されていない場合、コマンド全体がブロックされます。",
		"工具会自动将使用 `&&`、`||` 或 `;` 连接的命令拆分，并分别验证每个部分。如果链条中的任何部分不被允许，则整个命令将被阻止。",
	}, allowed(`{"coreTools": ["run_shell_command(git)"]}`, "git a && git b || git c; git d", "!git a && ls", "!git a || ls", "!git a; ls", "!git a | ls", "!git a & ls")},
	{"prefixes", []string{
		"ツールはプレフィックスマッチングを使用します。例えば、`git` を許可すると、`git status` や `git log` を実行できます。",
		"工具使用前缀匹配。例如，如果你允许 `git`，那么你可以运行 `git status` 或 `git log`。",
	}, allowed(`{"coreTools": ["run_shell_command(git)"]}`, "git status", "git log", "!gitk")},
	{"excludeTools first", []string{
		"`excludeTools` リストは常に最初にチェックされます。コマンドがブロックされたプレフィックスにマッチする場合、`coreTools` で許可されたプレフィックスにマッチしていても拒否されます。",
		"始终优先检查 `excludeTools` 列表。如果命令匹配了被阻止的前缀，即使它也匹配了 `coreTools` 中允许的前缀，该命令仍将被拒绝。",
	}, allowed(`{"coreTools": ["run_shell_command(git push)"], "excludeTools": ["run_shell_command(git push)"]}`, "!git push")},
	{"example of prefixes", []string{
		"`git` と `npm` のコマンドのみを許可し、それ以外をすべてブロックする場合：", "若只允许执行 `git` 和 `npm` 命令，其他命令均被阻止：",
	}, allowed(`{"coreTools": ["run_shell_command(git)", "run_shell_command(npm)"]}`, "git status", "npm install", "!ls -l")},
	{"example of a blocked prefix", []string{
		"`rm` をブロックし、他のすべてのコマンドを許可する場合：", "若要阻止 `rm` 命令，但允许所有其他命令：",
	}, allowed(`{"coreTools": ["run_shell_command"], "excludeTools": ["run_shell_command(rm)"]}`, "!rm -rf /", "git status", "npm install")},
	{"example of both", []string{
		"コマンドプレフィックスが `coreTools` と `excludeTools` の両方に含まれている場合、そのコマンドはブロックされます。",
		"如果某个命令前缀同时出现在 `coreTools` 和 `excludeTools` 中，则该命令会被阻止。",
	}, allowed(`{"coreTools": ["run_shell_command(git)"], "excludeTools": ["run_shell_command(git push)"]}`, "!git push origin main", "git status")},
	{"example of nothing", []string{
		"すべてのシェルコマンドをブロックするには、`run_shell_command` のワイルドカードを `excludeTools` に追加します：",
		"要阻止所有 shell 命令，可以将 `run_shell_command` 通配符添加到 `excludeTools` 中：",
	}, allowed(`{"excludeTools": ["run_shell_command"]}`, "!ls -l", "!any other command")},
	{"not a boundary", []string{
		"この機能は**セキュリティメカニズムではない**ため、信頼できないコードを安全に実行するために依存すべきではありません。実行可能なコマンドを明示的に選択するには、`coreTools` の使用を推奨します。",
		"此功能**不是一种安全机制**，不应依赖它来安全地执行不受信任的代码。建议使用 `coreTools` 来显式选择可以执行的命令。",
	}, func(t *testing.T) {
		text, err := os.ReadFile("../../docs/reference/run_shell_command.md")
		if err != nil || !strings.Contains(string(text), "no boundary for code that is not trusted") {
			t.Errorf("the documentation does not say so: %v", err)
		}
	}},
}

func TestQwenDocs(t *testing.T) {
	for _, d := range qwenDocs {
		t.Run(d.name, d.check)
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// noBash is an executor in a place without bash.
type noBash struct{ corral.Executor }

func (n noBash) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	cmd.Args = slices.Concat([]string{"no-bash-here"}, cmd.Args[1:])
	return n.Executor.Start(ctx, cmd)
}

// allowed checks the decisions under a configuration: commands with an
// exclamation mark are not allowed.
func allowed(config string, commands ...string) func(t *testing.T) {
	return func(t *testing.T) {
		var cfg Config
		if err := json.Unmarshal([]byte(config), &struct{ CoreTools, ExcludeTools *[]string }{&cfg.CoreTools, &cfg.ExcludeTools}); err != nil {
			t.Fatal(err)
		}
		tool := newTool(t, cfg)
		for _, c := range commands {
			command, no := strings.CutPrefix(c, "!")
			if v := tool.Check(command); (v.Outcome == policy.Allowed) == no {
				t.Errorf("%q: %+v", command, v)
			}
			if !no {
				continue
			}
			if _, err := tool.Run(t.Context(), Input{Command: command}); !errors.Is(err, corral.ErrDenied) {
				t.Errorf("%q ran: %v", command, err)
			}
		}
	}
}

// The examples of the documents, as calls. Each has a result.
func TestQwenExamples(t *testing.T) {
	tool := onHost(t, Config{})
	for _, tc := range []struct {
		quote      string
		directory  string
		want       string // in Text
		background bool
	}{
		{`run_shell_command(command="ls -la", is_background=false)`, "", " scripts\n", false},
		{`run_shell_command(command="./my_script.sh", directory="scripts", description="Run my custom script", is_background=false)`, "scripts", "/scripts\n", false},
		{`run_shell_command(command="npm run dev", description="Start development server in background", is_background=true)`, "", "Stdout: ready\n", true},
		{`run_shell_command(command="npm run dev &", description="Start development server in background", is_background=false)`, "", "Stdout: ready\n", true},
		{`run_shell_command(command="npm run build", description="Build the project", is_background=false)`, "", "Stdout: npm run build\n", false},
		{`run_shell_command(command="docker-compose up", description="Start all services", is_background=true)`, "", "Stdout: up\n", true},
	} {
		arguments := called(t, tc.quote)
		r, err := tool.Call(t.Context(), Name, arguments)
		if err != nil {
			t.Fatal(err)
		}
		o := r.(Output)
		if !strings.Contains(r.Text(), tc.want) || len(o.BackgroundPIDs) > 0 != tc.background || *o.ExitCode != 0 || o.Directory != tc.directory {
			t.Errorf("%s: %s", tc.quote, r.Text())
		}
	}
}

// called are the arguments of a call that is quoted from the documents.
func called(t *testing.T, quote string) json.RawMessage {
	t.Helper()
	inside := strings.TrimSuffix(strings.TrimPrefix(quote, "run_shell_command("), ")")
	for _, name := range []string{"command", "directory", "description", "is_background"} {
		inside = strings.Replace(inside, name+"=", `"`+name+`": `, 1)
	}
	text := json.RawMessage("{" + inside + "}")
	if !json.Valid(text) {
		t.Fatalf("%s", text)
	}
	return text
}
