package tool

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The examples of the two documents on OpenClaw's exec, unchanged: the Japanese one
// writes them without spaces, the Chinese one sometimes with spaces. Each is called and
// does what its document says.

// example makes a call as it is written in a document, for a session.
func example(t *testing.T, tools *Tools, text, id string) Result {
	t.Helper()
	var args map[string]json.RawMessage
	if err := json.Unmarshal([]byte(strings.Replace(text, "<id>", id, 1)), &args); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var name string
	if err := json.Unmarshal(args["tool"], &name); err != nil {
		t.Fatal(err)
	}
	delete(args, "tool")
	rest, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tools.Call(t.Context(), name, rest)
	if err != nil || r.Failed() {
		t.Fatalf("%s: %+v, %v", text, r, err)
	}
	return r
}

// フォアグラウンド： / **前台执行：**
func TestSeedForeground(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`{"tool":"exec","command":"ls -la"}`,
		`{ "tool": "exec", "command": "ls -la" }`,
	} {
		r := example(t, onHost(t, Config{Defaults: Defaults{Workdir: dir}}), text, "").(ExecResult)
		if r.Status != StatusCompleted || *r.ExitCode != 0 || !strings.Contains(r.Stdout, "a file") || r.SessionID != "" || len(r.Warnings) != 0 {
			t.Errorf("%s: %+v", text, r)
		}
	}
}

// 背景＋アンケート: (background and poll) / **后台轮询：**
func TestSeedPoll(t *testing.T) {
	// The document's npm, which takes longer than the 1000 ms.
	bin := t.TempDir()
	npm := "#!/bin/sh\necho building; sleep 1.5; echo built \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(npm), 0o755); err != nil {
		t.Fatal(err)
	}
	tools := onHost(t, Config{Defaults: Defaults{PathPrepend: []string{bin}}})
	r := example(t, tools, `{"tool":"exec","command":"npm run build","yieldMs":1000}`, "").(ExecResult)
	if r.Status != StatusRunning || r.SessionID == "" || strings.TrimSpace(r.Tail) != "building" {
		t.Fatalf("%+v", r)
	}
	p := example(t, tools, `{"tool":"process","action":"poll","sessionId":"<id>"}`, r.SessionID).(ProcessResult)
	if p.Status != StatusRunning && p.Status != StatusCompleted || !strings.HasPrefix(p.Output, "building\n") {
		t.Fatalf("%+v", p)
	}
	if end := do(t, tools, ProcessRequest{Action: ActionWait, SessionID: r.SessionID}); end.Status != StatusCompleted {
		t.Fatalf("%+v", end)
	}
	all := do(t, tools, ProcessRequest{Action: ActionLog, SessionID: r.SessionID})
	if !strings.Contains(all.Output, "built run build") {
		t.Errorf("%+v", all)
	}
}

// キー送信 (tmuxスタイル): / **发送按键（tmux 风格）：**, and submit and paste.
func TestSeedKeys(t *testing.T) {
	for _, tc := range []struct{ text, says string }{
		{`{"tool":"process","action":"send-keys","sessionId":"<id>","keys":["Enter"]}`, "^M"},
		{`{"tool":"process","action":"send-keys","sessionId":"<id>","keys":["C-c"]}`, "^C"},
		{`{"tool":"process","action":"send-keys","sessionId":"<id>","keys":["Up","Up","Enter"]}`, "^[[A^[[A^M"},
		// 送信（CR のみ）:
		{`{"tool":"process","action":"submit","sessionId":"<id>"}`, "^M"},
		// 貼り付け内容（デフォルトでは角括弧で囲まれます）: brackets around it are the default.
		{`{"tool":"process","action":"paste","sessionId":"<id>","text":"line1\nline2\n"}`, "^[[200~line1\nline2\n^[[201~"},
		{`{ "tool": "process", "action": "paste", "sessionId": "<id>", "text": "line1\nline2\n" }`, "^[[200~line1\nline2\n^[[201~"},
	} {
		tools := onHost(t, Config{})
		// The terminal shows the input unchanged.
		r := tools.Exec(t.Context(), ExecRequest{Command: "stty raw -echo; echo ready; exec cat -v", PTY: true, Background: true})
		if r.Status != StatusRunning {
			t.Fatalf("%+v", r)
		}
		wait := func(pattern string) ProcessResult {
			return do(t, tools, ProcessRequest{Action: ActionWait, SessionID: r.SessionID, Pattern: pattern, Timeout: ptr(20_000)})
		}
		wait("ready")
		example(t, tools, tc.text, r.SessionID)
		do(t, tools, ProcessRequest{Action: ActionSendKeys, SessionID: r.SessionID, Literal: "!"})
		wait("!")
		got := do(t, tools, ProcessRequest{Action: ActionLog, SessionID: r.SessionID}).Output
		_, got, _ = strings.Cut(strings.ReplaceAll(got, "\r", ""), "ready\n")
		if got != tc.says+"!" {
			t.Errorf("%s types %q, want %q", tc.text, got, tc.says+"!")
		}
		do(t, tools, ProcessRequest{Action: ActionRemove, SessionID: r.SessionID})
	}
}

func TestSeedDefaults(t *testing.T) {
	// * `yieldMs` (デフォルト 10000): 指定時間後に自動でバックグラウンド化
	// - `yieldMs` - 自动后台延迟（默认：10000ms）
	if DefaultYield.Milliseconds() != 10_000 {
		t.Error(DefaultYield)
	}
	// * `timeout` (秒, デフォルト 1800): タイムアウト時にプロセスを強制終了
	// - `timeout` - 终止超时秒数（默认：1800）
	if DefaultTimeout.Seconds() != 1800 {
		t.Error(DefaultTimeout)
	}
	// `process` が許可されていない場合、`exec` は同期的に実行され、`yieldMs` / `background` は無視されます。
	alone := onHost(t, Config{Allowed: noProcess})
	r := alone.Exec(t.Context(), ExecRequest{Command: "sleep 0.3; echo done", YieldMs: ptr(10), Background: true})
	if r.Status != StatusCompleted || r.Stdout != "done\n" || len(r.Warnings) == 0 {
		t.Errorf("%+v", r)
	}
	// サンドボックスがオフの場合、`elevated` は無視される (exec はすでにホスト上で実行されている)。
	// "沙箱**默认关闭**"——关闭时，沙箱直接在 gateway 上运行，无需审批
	r = onHost(t, Config{}).Exec(t.Context(), ExecRequest{Command: "true", Elevated: true})
	if r.Status != StatusCompleted || r.Sandboxed {
		t.Errorf("%+v", r)
	}
}
