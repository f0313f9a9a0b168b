package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/policy/guard"
)

// A fakePolicy remembers what it was asked.
type fakePolicy struct {
	over   map[string]config.Overrides
	asked  corral.Command
	opt    ExplainOptions
	caller config.Caller
	by     string
}

func (p *fakePolicy) Explain(ctx context.Context, agent string, cmd corral.Command, o ExplainOptions) (api.Report, error) {
	p.asked, p.opt, p.caller = cmd, o, config.CallerFrom(ctx)
	return guard.Refusal(agent, cmd, corral.Route{Reason: corral.RouteNotAllowed}, corral.Errorf(corral.ErrDenied, "do this", "no"))
}

func (p *fakePolicy) Current(_ context.Context, recs []approval.Record) []approval.Record {
	return recs
}

// Would allows what a rule of its very text allows.
func (p *fakePolicy) Would(_ context.Context, _ string, cmd corral.Command, change func([]policy.Rule) []policy.Rule) (now, then policy.Outcome, err error) {
	if slices.ContainsFunc(change(nil), func(r policy.Rule) bool { return r.Pattern == cmd.Shell }) {
		return policy.Asked, policy.Allowed, nil
	}
	return policy.Asked, policy.Asked, nil
}

func (p *fakePolicy) Overrides(agent string) config.Overrides { return p.over[agent] }
func (p *fakePolicy) SetOverrides(agent string, to config.Overrides) error {
	p.over[agent] = to
	return nil
}

func (p *fakePolicy) CheckSender(s config.Sender) error {
	if s.ID == "1" {
		return nil
	}
	return corral.Errorf(corral.ErrDenied, "add it", "sender %q is not authorised", s)
}

func (p *fakePolicy) Say(_ context.Context, agent, text, bot, by string) (string, error) {
	p.by = by
	return agent + " " + text + " " + bot, nil
}

func newPolicyRig(t *testing.T) (*rig, *fakePolicy) {
	p := &fakePolicy{over: map[string]config.Overrides{}}
	return newRig(t, func(c *Config) { c.Policy = p }), p
}

// say sends a request over the Unix socket or TCP, as a user who has the token.
func (g *rig) say(client *http.Client, method, path, body string, header ...string) (int, string) {
	g.t.Helper()
	base := g.url
	if client != g.tcp {
		base = "http://localhost"
	}
	a := g.send(client, base+path, method, body, append(header, "Authorization", "Bearer "+testToken)...)
	return a.status, strings.TrimSpace(a.body)
}

func TestExplain(t *testing.T) {
	g, p := newPolicyRig(t)
	status, body := g.say(g.tcp, "POST", "/v1/explain", `{"command":"ls","host":"gateway","security":"deny","environment":true}`, "Corral-Sender", "telegram:7", "Corral-Agent", "nightly")
	var r api.Report
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	if status != 200 || r.Outcome != "deny" || r.Reason != "no" || len(r.Fix) != 1 || r.Agent != "nightly" || r.Decision.Outcome != "deny" || r.Command != "ls" {
		t.Errorf("%d %s", status, body)
	}
	if p.asked.Shell != "ls" || p.asked.Host != "gateway" || p.asked.Security != "deny" || !p.opt.Environment || p.opt.Values || p.caller.Sender != (config.Sender{Provider: "telegram", ID: "7"}) {
		t.Errorf("%+v, %+v, %+v", p.asked, p.opt, p.caller)
	}
	if status, body := g.say(g.tcp, "POST", "/v1/explain", `{"command":"ls"}`, "Corral-Sender", "telegram"); status != 400 || !strings.Contains(body, "sender") {
		t.Errorf("a sender without an ID: %d %s", status, body)
	}
	without := newRig(t, nil)
	if status, body := without.say(without.tcp, "POST", "/v1/explain", `{"command":"ls"}`); status != 501 {
		t.Errorf("without a policy: %d %s", status, body)
	}
}

// Who may set what for a session: the operator, and senders that are known.
func TestOverrides(t *testing.T) {
	g, p := newPolicyRig(t)
	for _, tc := range []struct {
		client *http.Client
		sender string
		body   string
		status int
	}{
		{g.unix, "", `{"host":"gateway","ask":"always"}`, 200},
		{g.unix, "telegram:2", `{}`, 403},
		{g.unix, "telegram:1", `{"security":"allowlist","node":"mac-1"}`, 200},
		{g.tcp, "", `{}`, 403},
		{g.tcp, "telegram:1", `{}`, 200},
		{g.unix, "", `{"host":"elsewhere"}`, 400},
		{g.unix, "", `{"hots":"gateway"}`, 400},
	} {
		p.over = map[string]config.Overrides{}
		client := tc.client
		if tc.status == 400 {
			client = g.careless()
		}
		header := []string{}
		if tc.sender != "" {
			header = []string{"Corral-Sender", tc.sender}
		}
		status, body := g.say(client, "PUT", "/v1/overrides", tc.body, header...)
		if status != tc.status {
			t.Errorf("%s %s: %d %s", tc.sender, tc.body, status, body)
		}
		var now, want config.Overrides
		if status == 200 {
			if err := errors.Join(json.Unmarshal([]byte(tc.body), &want), json.Unmarshal([]byte(body), &now)); err != nil {
				t.Fatal(err)
			}
		}
		if now != want || p.over["main"] != want {
			t.Errorf("%s %s: %+v, %+v", tc.sender, tc.body, now, p.over)
		}
	}
	p.over["main"] = config.Overrides{Ask: "always"}
	if status, body := g.say(g.tcp, "GET", "/v1/overrides", ""); status != 200 || body != `{"ask":"always"}` {
		t.Errorf("%d %s", status, body)
	}
}

func TestCommands(t *testing.T) {
	g, p := newPolicyRig(t)
	for _, tc := range []struct {
		client *http.Client
		body   string
		status int
		by     string
	}{
		{g.unix, `{"text":"/exec"}`, 200, "operator"},
		{g.unix, `{"text":"/exec","sender":{"provider":"telegram","id":"1"},"bot":"b"}`, 200, "telegram:1"},
		{g.unix, `{"text":"/exec","sender":{"provider":"","id":""}}`, 403, ""}, // not the operator, but nobody
		{g.unix, `{"text":"/exec","sender":{"provider":"telegram","id":"2"}}`, 403, ""},
		{g.tcp, `{"text":"/exec"}`, 403, ""},
		{g.tcp, `{"text":"/exec","sender":{"provider":"telegram","id":"1"}}`, 200, "telegram:1"},
	} {
		p.by = ""
		status, body := g.say(tc.client, "POST", "/v1/commands", tc.body)
		if status != tc.status || p.by != tc.by || status == 200 && !strings.Contains(body, `"text":"main /exec`) {
			t.Errorf("%s: %d %s, by %q", tc.body, status, body, p.by)
		}
	}
}
