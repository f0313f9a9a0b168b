package policy

import (
	"testing"

	"github.com/corral-exec/corral/internal/programs"
)

// The sentences of OpenClaw's two documents about exec on allowlists, safe bins and
// approvals, each with the outcomes that follow from it. Sentences about configuration,
// files and environment are tested in the packages for these.
func TestSentences(t *testing.T) {
	strict := func(list ...Rule) Rules {
		r := rulesOf(DefaultSecurity, DefaultAsk, list...)
		r.SafeBins.Value = programs.DefaultSafeBins
		return r
	}
	safe := strict(allow("/bin/ls"), allow("/bin/echo"), allow("/usr/bin/git"))
	for _, c := range []struct {
		sentence string
		rules    Rules
		commands map[string]Outcome
	}{
		{"`security` (`deny | allowlist | full`): `gateway`/`node` 用の適用モード", rulesOf(SecurityDeny, AskOff, allow("*")), map[string]Outcome{"ls": Denied}},
		{"`security` - 强制模式：`deny`、`allowlist` 或 `full`", rulesOf(SecurityFull, AskOff), map[string]Outcome{"ls; rm x > y": Allowed}},
		{"`ask` (`off | on-miss | always`): `gateway`/`node` 用の承認プロンプト設定", rulesOf(SecurityAllowlist, AskAlways, allow("/bin/ls")), map[string]Outcome{"ls": Asked}},
		{"`ask` - 审批提示：`off`、`on-miss` 或 `always`", rulesOf(SecurityAllowlist, AskOff, allow("/bin/ls")), map[string]Outcome{"ls": Allowed, "rm x": Denied}},
		{"| `tools.exec.ask` | on-miss | 审批提示行为 |", safe, map[string]Outcome{"ls": Allowed, "rm x": Asked}},

		// Only paths match, and no base names.
		{"許可リストの適用は、**解決済みバイナリパスに対してのみ**行われます（basename だけでのマッチは行いません）。", strict(allow("ls"), allow("git")), map[string]Outcome{"ls": Asked, "git log": Asked, "/bin/ls": Asked}},
		{"許可リストの適用は、**解決済みバイナリパスに対してのみ**行われます", strict(allow("/bin/ls")), map[string]Outcome{"ls": Allowed, "/bin/ls": Allowed, "./ls": Asked, "/srv/../bin/ls": Allowed}},
		{"仅匹配\"解析的二进制路径\"——不匹配基本名称。", strict(allow("rg"), allow("/opt/brew/bin/rg")), map[string]Outcome{"rg x": Allowed}},
		{"仅匹配\"解析的二进制路径\"——不匹配基本名称。", strict(allow("rg")), map[string]Outcome{"rg x": Asked}},

		// Every part of a pipeline.
		{"`security=allowlist` の場合、パイプライン内のすべてのセグメントが許可リスト対象かセーフバイナリである場合にのみ、シェルコマンドは自動的に許可されます。", safe, map[string]Outcome{
			"ls | head -5": Allowed, "git log | wc -l | tr a b": Allowed, "ls | ls | git log": Allowed,
			"ls | rm x": Asked, "rm x | ls": Asked, "ls | head -5 x": Asked, "ls | head | sort": Asked, "head -5": Allowed,
		}},

		// No lists, no redirections.
		{"`;`、`&&`、`||` によるコマンドの連結やリダイレクトは、allowlist モードでは拒否されます。", safe, map[string]Outcome{
			"ls; ls": Asked, "ls && ls": Asked, "ls || ls": Asked, "ls > x": Asked, "ls >> x": Asked, "ls < x": Asked, "ls 2>&1": Asked, "ls\nls": Asked, "ls & ls": Asked,
			"ls ';' '&&' '>'": Allowed,
		}},
		{"在允许列表模式下，链接操作符和重定向被拒绝。", rulesOf(SecurityAllowlist, AskOff, allow("*")), map[string]Outcome{"ls; ls": Denied, "ls > x": Denied, "ls": Allowed}},

		// Safe bins.
		{"`tools.exec.safeBins`: 明示的な許可リストのエントリなしで実行可能な、標準入力のみを受け付ける安全なバイナリ。", safe, map[string]Outcome{
			"head -n 3": Allowed, "wc -l": Allowed, "tr a-z A-Z": Allowed, "head /etc/passwd": Asked, "wc -l x": Asked, "sort": Asked, "python3": Asked,
		}},
		{"| `tools.exec.safeBins` | - | 仅 stdin 安全的二进制文件 |", rulesOf(SecurityAllowlist, AskOnMiss), map[string]Outcome{"head -n 3": Asked}},

		// Approvals apply until both are set.
		{"ホスト側の承認は、`security=full` かつ `ask=off` を明示的に設定しない限り引き続き適用されます。", rulesOf(SecurityFull, AskOff), map[string]Outcome{"rm x": Allowed}},
		{"`security=full` かつ `ask=off` を明示的に設定しない限り", rulesOf(SecurityFull, AskAlways), map[string]Outcome{"rm x": Asked}},
		{"`security=full` かつ `ask=off` を明示的に設定しない限り", rulesOf(SecurityAllowlist, AskOff), map[string]Outcome{"rm x": Denied}},

		// The examples, with the rules of a user who runs them.
		{`{"tool":"exec","command":"ls -la"}`, safe, map[string]Outcome{"ls -la": Allowed}},
		{`{"tool":"exec","command":"npm run build","yieldMs":1000}`, strict(Rule{Action: Allow, Pattern: "/usr/bin/npm", Args: []string{"run", "build"}}), map[string]Outcome{"npm run build": Allowed}},
		{`/exec host=gateway security=allowlist ask=on-miss node=mac-1`, safe, map[string]Outcome{"ls": Allowed, "rm x": Asked}},
	} {
		for text, want := range c.commands {
			if d := Decide(requestOf(text), c.rules, someFiles); d.Outcome != want {
				t.Errorf("%s\n%q: %s, want %s: %s", c.sentence, text, d.Outcome, want, d.Reason)
			}
		}
	}
	// "`tools.exec.security` (デフォルト: sandbox の場合は `deny`、未設定時の Gateway + ノードの場合は `allowlist`)"
	// "`tools.exec.ask` (デフォルト: `on-miss`)"
	if DefaultSecurity != "allowlist" || DefaultAsk != "on-miss" {
		t.Errorf("by default security=%s, ask=%s", DefaultSecurity, DefaultAsk)
	}
}
