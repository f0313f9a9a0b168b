package guard

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// silent are nodes without a policy of their own, such as SSH hosts.
type silent struct{}

func (silent) Decide(_ context.Context, node, _ string, _ corral.Command) (id, name string, answer []byte, err error) {
	return node, node, nil, errors.ErrUnsupported
}

// Commands for a node without a policy are decided on at the gateway, by their text alone.
// Allow rules name paths, and it is not known which programs the node has there.
func TestNodeWithoutPolicy(t *testing.T) {
	const rules = `rules: [{allow: "/usr/bin/uname"}, {deny: "rm"}]`
	ssh := corral.Route{Host: corral.HostNode, Node: "ssh:build1", Guarded: true}
	for _, test := range []struct {
		settings, command string
		want              policy.Outcome
	}{
		{`security: "allowlist", ask: "on-miss", ` + rules, "uname -a", policy.Asked},
		{`security: "allowlist", ask: "on-miss", ` + rules, "/usr/bin/uname -a", policy.Asked},
		{`security: "allowlist", ask: "on-miss", ` + rules, "rm -r x", policy.Denied},
		{`security: "allowlist", ask: "off", ` + rules, "uname -a", policy.Denied},
		{`security: "full", ask: "off", ` + rules, "uname -a", policy.Allowed},
		{`security: "full", ask: "off", ` + rules, "rm -r x", policy.Denied},
		{`security: "full", ask: "always", ` + rules, "uname -a", policy.Asked},
		{`security: "deny", ask: "off", ` + rules, "uname -a", policy.Denied},
	} {
		r := newRig(t, "tools: {exec: {"+test.settings+"}}")
		r.nodes = silent{}
		r.again()
		cmd := corral.Command{ID: "one", Shell: test.command}
		report, _, err := r.guard.Report(t.Context(), "main", cmd, ssh)
		if err != nil || report.Outcome != test.want {
			t.Errorf("%s: %s: %v (%s), %v", test.settings, test.command, report.Outcome, report.Reason, err)
		}
		if report.Outcome != policy.Denied && !strings.Contains(strings.Join(report.Warnings, " "), "no policy of its own") {
			t.Errorf("warnings %q", report.Warnings)
		}
		if strings.Contains(report.Reason, "not found") || strings.Contains(report.Reason, "no such file") { // which is not known
			t.Errorf("%s: %s: because %q", test.settings, test.command, report.Reason)
		}
		for _, p := range report.Previews {
			if p.Unavailable == "" {
				t.Errorf("%s would be remembered: %+v", test.command, p)
			}
		}
		out, err := r.guard.For("main")(t.Context(), cmd, ssh)
		switch {
		case (err == nil) != (test.want == policy.Allowed):
			t.Errorf("%s: %s: %v", test.settings, test.command, err)
		case err == nil && out.Shell != test.command:
			t.Errorf("%+v would run", out)
		}
		pending, ok := approval.AsPending(err)
		if ok != (test.want == policy.Asked) {
			t.Errorf("%s: %s: %v", test.settings, test.command, err)
		}
		if !ok {
			continue
		}
		// The approval is for this command on this host.
		rec := pending.Record
		r.answer(rec, approval.AllowOnce)
		cmd.Approval = rec.ID
		elsewhere := ssh
		elsewhere.Node = "ssh:build2"
		if _, err := r.guard.For("main")(t.Context(), cmd, elsewhere); !errors.Is(err, corral.ErrDenied) && !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("on another host: %v", err)
		}
		if _, err := r.guard.For("main")(t.Context(), cmd, ssh); err != nil {
			t.Errorf("approved: %v", err)
		}
	}
}
