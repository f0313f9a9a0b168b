package policy

import "testing"

// The statements of docs/reference/policy.md about single commands are true.
func TestDocsClaims(t *testing.T) {
	list := []Rule{allow("/bin/*"), allow("/usr/bin/*")}
	each := rulesOf(SecurityAllowlist, AskOnMiss, list...)
	each.Chaining.Value, each.Redirections.Value = true, true
	for _, c := range []struct {
		claim string
		rules Rules
		texts map[string]Outcome
	}{
		{"refused in allowlist mode", rulesOf(SecurityAllowlist, AskOnMiss, list...), map[string]Outcome{
			"ls; ls": Asked, "! ls": Asked, "ls >x": Asked, "ls |& cat": Asked, "cat <<X\nX": Asked, "X=1 ls": Asked, "export X=1": Asked, "echo ${X:=a}": Asked, "echo ${X:1}": Asked, "echo $((X))": Asked,
			"(ls)": Asked, "[[ a ]]": Asked, "eval \"$X\"": Asked, "exit 1": Asked, "sudo ls": Asked, "env -i ls": Asked, "ls | xargs $X": Asked, "git -c core.pager=x log": Asked, "python3 -c x": Asked,
		}},
		{"allowed in allowlist mode", rulesOf(SecurityAllowlist, AskOnMiss, list...), map[string]Outcome{
			"ls $X *.go ~/x": Allowed, "awk '{print $2}'": Allowed, "nice ls": Allowed, "env ls": Allowed, "env LANG=C ls": Allowed, "make V=1": Allowed, "echo $((1+1))": Allowed,
		}},
		{"allowed with the options", each, map[string]Outcome{
			"ls; ls": Allowed, "! ls": Allowed, "ls &": Allowed, "cd x && ls": Allowed, "ls 2>&1 >/dev/null": Allowed, "ls |& cat": Allowed, "cat <<X\nX": Allowed, "cat <<<x": Allowed, "ls >x": Asked, "ls; X=1": Asked,
		}},
		{"under rules that forbid", rulesOf(SecurityFull, AskOnMiss, deny("rm")), map[string]Outcome{
			"$X y": Asked, "eval \"$X\"": Asked, "cat x | sh": Asked, "((X))": Asked, "PATH=x ls": Asked, "BASH_ENV=x bash -c ls": Asked, "LD_PRELOAD=x ls": Asked, `python3 -c 'os.system("rm x")'`: Asked,
			"python3 -c 'print(1)'": Allowed, "bash run.sh": Allowed, "sudo rm x": Denied, "f() { rm x; }; f": Denied, "echo $(rm x)": Denied,
		}},
	} {
		for text, want := range c.texts {
			if d := Decide(requestOf(text), c.rules, someFiles); d.Outcome != want {
				t.Errorf("%s: %q: %s: %s", c.claim, text, d.Outcome, d.Reason)
			}
		}
	}
}
