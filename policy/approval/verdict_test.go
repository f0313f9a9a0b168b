package approval

import (
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

func TestParseVerdict(t *testing.T) {
	for want, names := range map[Verdict]string{
		AllowOnce: "allow once allowonce allow-once ALLOW Once", AllowAlways: "always allowalways allow-always AllowAlways", Deny: "deny reject block DENY",
	} {
		for name := range strings.FieldsSeq(names) {
			if got, err := ParseVerdict(name); err != nil || got != want {
				t.Errorf("%s: %s, %v", name, got, err)
			}
		}
	}
	for _, bad := range []string{"", "yes", "allow_once", "allow once", "de\x00ny"} {
		_, err := ParseVerdict(bad)
		wantKind(t, err, corral.ErrInvalid)
	}
	for in, want := range map[string]Scope{"": ScopeExact, "Program": ScopeProgram, "subcommand": ScopeSubcommand} {
		if got, err := ParseScope(in); err != nil || got != want {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
	_, err := ParseScope("all")
	wantKind(t, err, corral.ErrInvalid)
}

func TestParseReply(t *testing.T) {
	for text, want := range map[string]Reply{
		"/approve brave-otter-42 allow-once":     {"brave-otter-42", AllowOnce, ""},
		"/approve allow-once brave-otter-42":     {"brave-otter-42", AllowOnce, ""},
		"  /Approve   abc\n always ":             {"abc", AllowAlways, ""},
		"/approve reject abc":                    {"abc", Deny, ""},
		"/approve@corral_bot abc allow":          {"abc", AllowOnce, ""},
		"/approve@CORRAL_bot always abc program": {"abc", AllowAlways, ScopeProgram},
		"/approve abc always subcommand":         {"abc", AllowAlways, ScopeSubcommand},
	} {
		if got, err := ParseReply(text, "@corral_bot"); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"": "empty", "/approve": "an ID and a decision", "/approve abc": "an ID and a decision", "/approve abc maybe": "is a decision",
		"/approve abc deny exact more": "an ID", "approve abc deny": "is not /approve", "/approved abc deny": "is not /approve",
		"/approve@other_bot abc deny": "another bot", "/approve@ abc deny": "another bot", "/approve abc always all": "scope",
	} {
		_, err := ParseReply(text, "corral_bot")
		wantKind(t, err, corral.ErrInvalid, says)
	}
}

func TestEffective(t *testing.T) {
	from := func(v, name string) policy.Setting[policy.Security] {
		return policy.Setting[policy.Security]{Value: policy.Security(v), Source: policy.Source{Name: name}}
	}
	for _, c := range []struct{ requested, host, want, source string }{
		{"", "", "allowlist", "default"}, {"full", "", "full", "requested"}, {"", "full", "full", "host"},
		{"full", "deny", "deny", "host"}, {"deny", "full", "deny", "requested"}, {"full", "full", "full", "requested"},
	} {
		got := Effective(Settings{Security: from(c.requested, "requested")}, Settings{Security: from(c.host, "host")})
		if string(got.Security.Value) != c.want || got.Security.Source.Name != c.source {
			t.Errorf("%+v: %+v", c, got.Security)
		}
	}
	got := Effective(Settings{Security: from("allowlist", "requested")}, Settings{AskFallback: from("full", "host")})
	if got.AskFallback != from("allowlist", "requested") {
		t.Errorf("the fallback is laxer than the security: %+v", got)
	}
}
