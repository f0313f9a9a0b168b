package approval

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral/policy"
)

// "`gateway`/`node` の承認は `~/.openclaw/exec-approvals.json` で制御される。": a file
// that OpenClaw wrote has the same meaning here.
func TestFileOfOpenClaw(t *testing.T) {
	f := newFile(t, `{
  "version": 1,
  "socket": { "path": "/home/u/.openclaw/exec-approvals.sock", "token": "c2VjcmV0" },
  "defaults": { "security": "allowlist", "ask": "on-miss", "askFallback": "deny", "autoAllowSkills": true },
  "agents": {
    "main": {
      "security": "full", "ask": "off",
      "allowlist": [
        { "id": "0e4b4a0e-6f2c-4f3a-9d43-6b9c3f1f6b0a", "pattern": "~/Projects/**/bin/rg", "source": "allow-always",
          "lastUsedAt": 1737150000000, "lastUsedCommand": "rg -n TODO", "lastResolvedPath": "/home/u/Projects/x/bin/rg" },
        { "pattern": "/usr/bin/jq", "argPattern": "^-r .*$", "commandText": "jq -r ." }
      ]
    },
    "research": { "askFallback": "allowlist" }
  }
}
`)
	h, err := f.Rules("")
	ok(t, err)
	got := []string{string(h.Security.Value), string(h.Ask.Value), string(h.AskFallback.Value)}
	for _, r := range h.Rules {
		got = append(got, r.Pattern, r.ArgPattern)
	}
	if diff := cmp.Diff([]string{"full", "off", "deny", "~/Projects/**/bin/rg", "", "/usr/bin/jq", "^-r .*$"}, got); diff != "" || len(h.Warnings) > 0 {
		t.Errorf("%s\n%v", diff, h.Warnings)
	}
	if h, err = f.Rules("research"); err != nil || h.AskFallback.Value != policy.SecurityAllowlist || h.Security.Value != policy.SecurityAllowlist || len(h.Rules) > 0 {
		t.Errorf("%+v, %v", h, err)
	}
}
