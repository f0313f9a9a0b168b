package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy"
)

// The commands that are printed are such that a shell and corral understand.
func TestChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "it's corral.json5")
	o := &Options{Config: ConfigFile{Default: "/nowhere/corral/corral.json5"}}
	decide := func(fix ...string) policy.Decision {
		return policy.Decision{Fix: fix, Security: policy.Setting[policy.Security]{Value: policy.SecurityAllowlist}}
	}
	for _, tc := range []struct {
		text string
		d    policy.Decision
		want []string
	}{
		{`{}`, decide(`add the rule {allow: "/usr/bin/a"}`, `add the rule {allow: "/usr/bin/b", args: ["x y", "*"]}`), []string{`tools.exec.rules '[{allow: "/usr/bin/a"}]'`, `'tools.exec.rules[1]' '{allow: "/usr/bin/b", args: ["x y", "*"]}'`}},
		{`{ tools: { exec: { rules: [{ deny: "rm" }] } } }`, decide(`add the rule {allow: "/usr/bin/a"}`), []string{`'tools.exec.rules[1]' '{allow: "/usr/bin/a"}'`}},
		{`{}`, decide("run the commands one by one, or set allowlist.chaining: each", "leave it out, or set allowlist.redirections: harmless"), []string{"tools.exec.allowlist.chaining each", "tools.exec.allowlist.redirections harmless"}},
		{`{}`, decide("approve it"), nil},
		{`{ tools: { exec: { security: "deny" } } }`, policy.Decision{Security: policy.Setting[policy.Security]{Value: policy.SecurityDeny, Source: policy.Source{File: file, Line: 1, Key: "tools.exec.security"}}}, []string{"tools.exec.security allowlist"}},
		{`{}`, policy.Decision{Security: policy.Setting[policy.Security]{Value: policy.SecurityDeny, Source: policy.Source{File: "/approvals.json", Key: "defaults.security"}}}, nil},
	} {
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, w := range tc.want {
			want = append(want, "corral --config "+words.Quote(file)+" config set "+w)
		}
		got := o.changes(c, tc.d)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", tc.text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, line := range tc.want { // each works, in this order
			key, value, _ := strings.Cut(strings.ReplaceAll(line, "'", ""), " ")
			if _, err := (config.Edit{File: file}).Set(key, value); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	if got := o.changes(config.Closed(file, errors.New("broken")), decide(`add the rule {allow: "/usr/bin/a"}`)); got != nil {
		t.Errorf("a file that cannot be used: %q", got)
	}
}
