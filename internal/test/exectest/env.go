package exectest

import (
	"maps"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
)

var envCases = []Case{
	{Name: "env/exact-args", Doc: "A program run without a shell has the base environment and the call's, nothing else.", Func: envExactArgs},
	{Name: "env/exact-shell", Doc: "A program run by the shell has the shell's base environment and the call's, nothing else.", Func: envExactShell},
	{Name: "env/values", Doc: "Values with newlines, quotes, dollars, '=', backslashes, Unicode or nothing in them arrive as they are.", Func: envValues},
	{Name: "env/invalid-utf8", Doc: "A value that is not UTF-8 arrives as it is.", Func: envInvalidUTF8},
	{Name: "env/override", Doc: "The call's Env wins over the base environment.", Func: envOverride},
	{Name: "env/large", Doc: "A value of 100 KB and a thousand variables arrive.", Func: envLarge},
	{Name: "env/isolated", Doc: "What one command's Env sets, the next does not see.", Func: envIsolated},
}

var setByShells = []string{"PWD", "OLDPWD", "SHLVL", "_"}

// environ parses what "testprog env" printed. A variable that is there twice
// fails the case.
func (t *T) environ(out string) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, kv := range strings.Split(strings.TrimSuffix(out, "\x00"), "\x00") {
		k, v, _ := strings.Cut(kv, "=")
		if _, twice := env[k]; twice {
			t.Errorf("%s is in the environment twice", k)
		}
		env[k] = v
	}
	return env
}

// sameEnv compares, leaving out what the target cannot foresee.
func (t *T) sameEnv(got, want map[string]string, ignore ...string) {
	t.Helper()
	ignore = append(ignore, t.Target.IgnoreEnv...)
	for k, v := range got {
		if _, known := want[k]; !known && !slices.Contains(ignore, k) {
			t.Errorf("unexpected %s=%s", k, clip(v))
		}
	}
	for k, v := range want {
		if g, there := got[k]; !slices.Contains(ignore, k) && (!there || g != v) {
			t.Errorf("%s is %s (set: %v), not %s", k, clip(g), there, clip(v))
		}
	}
}

// overlay is base with the variables of over.
func overlay(base, over map[string]string) map[string]string {
	m := maps.Clone(base)
	maps.Copy(m, over)
	return m
}

func envExactArgs(t *T) {
	cmd := t.prog("env")
	t.sameEnv(t.environ(t.ok(cmd)), t.Target.BaseEnv)
	cmd.Env = map[string]string{"CORRAL_TEST_A": "1", "corral_test_b": "2"}
	t.sameEnv(t.environ(t.ok(cmd)), overlay(t.Target.BaseEnv, cmd.Env))
}

func envExactShell(t *T) {
	base := overlay(t.Target.BaseEnv, t.Target.ShellEnv)
	cmd := t.sh("$PROG env")
	t.sameEnv(t.environ(t.ok(cmd)), base, setByShells...)
	cmd.Env = map[string]string{"CORRAL_TEST_A": "1", "corral_test_b": "2"}
	t.sameEnv(t.environ(t.ok(cmd)), overlay(base, cmd.Env), setByShells...)
}

func envValues(t *T) {
	env := map[string]string{
		"CORRAL_TEST_EMPTY":   "",
		"CORRAL_TEST_SPACE":   "  a  b ",
		"CORRAL_TEST_NEWLINE": "one\ntwo\n\n",
		"CORRAL_TEST_QUOTES":  `"double" 'single' ` + "`backtick`",
		"CORRAL_TEST_DOLLAR":  "$HOME ${HOME} $(echo no) $$ !!",
		"CORRAL_TEST_EQUALS":  "a=b=c",
		"CORRAL_TEST_SLASH":   `\n \\ \`,
		"CORRAL_TEST_UNICODE": "日本語 😀 é",
		"CORRAL_TEST_CONTROL": "\x01\x1b[31m\r\x7f",
	}
	for _, cmd := range []corral.Command{t.prog("env"), t.sh("$PROG env")} {
		cmd.Env = env
		got := t.environ(t.ok(cmd))
		for k, v := range env {
			if g, there := got[k]; !there || g != v {
				t.Errorf("%s: %s is %q (set: %v), not %q", brief(cmd), k, g, there, v)
			}
		}
	}
}

func envInvalidUTF8(t *T) {
	cmd := t.prog("env")
	cmd.Env = map[string]string{"CORRAL_TEST_BYTES": "a\xff\xfe\x80z"}
	equal(t, "CORRAL_TEST_BYTES", t.environ(t.ok(cmd))["CORRAL_TEST_BYTES"], "a\xff\xfe\x80z")
}

func envOverride(t *T) {
	for _, cmd := range []corral.Command{t.prog("env"), t.sh("$PROG env")} {
		cmd.Env = map[string]string{"LANG": "C", "TZ": "UTC"}
		got := t.environ(t.ok(cmd))
		equal(t, "LANG", got["LANG"], "C")
		equal(t, "TZ", got["TZ"], "UTC")
	}
}

func envLarge(t *T) {
	cmd := t.prog("env")
	cmd.Env = map[string]string{"CORRAL_TEST_LARGE": strings.Repeat("v", 100_000)}
	for i := range 1000 {
		cmd.Env["CORRAL_TEST_"+strings.Repeat("A", i+1)] = "x"
	}
	t.sameEnv(t.environ(t.ok(cmd)), overlay(t.Target.BaseEnv, cmd.Env))
}

func envIsolated(t *T) {
	cmd := t.prog("env")
	cmd.Env = map[string]string{"CORRAL_TEST_ONCE": "1"}
	t.ok(cmd)
	t.sameEnv(t.environ(t.ok(t.prog("env"))), t.Target.BaseEnv)
}
