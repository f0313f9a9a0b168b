package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// A desk is a rig with approvals.
type desk struct {
	*rig
	*approval.Desk
	file *approval.File
	dir  string
}

func newDesk(t *testing.T) *desk {
	d := &desk{dir: t.TempDir()}
	var err error
	if d.file, err = approval.NewFile(filepath.Join(d.dir, "exec-approvals.json"), nil); err != nil {
		t.Fatal(err)
	}
	d.Desk, err = approval.OpenDesk(approval.Options{
		Dir: filepath.Join(d.dir, "desk"),
		Remember: func(_ context.Context, rec approval.Record, rules []policy.Rule) error {
			return d.file.Add(rec.Agent, rec.Scope, rules...)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Desk.Close(); err != nil {
			t.Error(err)
		}
		if err := d.file.Close(); err != nil {
			t.Error(err)
		}
	})
	d.rig = newRig(t, func(c *Config) { c.Approvals, c.Rules = d.Desk, d.file })
	return d
}

// ask asks about a command of an agent.
func (d *desk) ask(agent, command string) approval.Record {
	d.t.Helper()
	req := policy.Request{Command: command, Shell: []string{"/bin/sh", "-c"}, Dir: d.dir, Path: "/usr/bin:/bin"}
	decision := policy.Decide(req, policy.Rules{
		Security: policy.Setting[policy.Security]{Value: policy.SecurityAllowlist}, Ask: policy.Setting[policy.Ask]{Value: policy.AskOnMiss},
	}, policy.OS{})
	env := map[string]string{"NAME": "secret"}
	binding, err := approval.Bind(req, decision, env, policy.OS{})
	if err != nil {
		d.t.Fatal(err)
	}
	rec, err := d.Ask(context.Background(), approval.Request{
		Agent: agent, Host: corral.HostGateway, Command: req, Decision: decision, Binding: binding, Note: json.RawMessage(`{"private":1}`),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return rec
}

func (a answer) record() (rec approval.Record) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.body), &rec); err != nil {
		a.t.Fatalf("%s: %v", a.body, err)
	}
	if rec.Note != nil || strings.Contains(a.body, "private") || strings.Contains(a.body, "secret") {
		a.t.Errorf("it shows what is not to be shown: %s", a.body)
	}
	return rec
}

func TestApprovals(t *testing.T) {
	d := newDesk(t)
	one, two := d.ask("main", "ls -l"), d.ask("other", "ls -a")
	list := func(query string, want ...string) {
		t.Helper()
		var got api.Approvals[approval.Record]
		if err := json.Unmarshal([]byte(d.do("GET", "/v1/approvals"+query, "").is(200).body), &got); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, r := range got.Approvals {
			ids = append(ids, r.ID)
		}
		if got.Approvals == nil || strings.Join(ids, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %q, want %q", query, ids, want)
		}
	}
	list("", one.ID, two.ID)
	list("?agent=*", one.ID, two.ID)
	list("?agent=other", two.ID)
	list("?state=pending&agent=main", one.ID)
	list("?state=denied")
	d.careless()
	d.send(d.careless(), "http://localhost/v1/approvals?state=lost", "GET", "").code(400, "invalid")

	for _, ref := range []string{one.ID, one.Slug, one.ID[:12], one.Slug[:len(one.Slug)-1], strings.ToUpper(one.Slug)} {
		rec := d.do("GET", "/v1/approvals/"+ref, "").is(200).record()
		if rec.ID != one.ID || rec.Command != "ls -l" || len(rec.Env) != 1 || len(rec.Previews) != 3 {
			t.Errorf("%s: %+v", ref, rec)
		}
	}
	for _, ref := range []string{"nonsense", "..%2fsessions", "%00", strings.Repeat("x", 2000), one.ID + "x"} {
		d.do("GET", "/v1/approvals/"+ref, "").code(404, "not-found")
		d.do("POST", "/v1/approvals/"+ref, `{"decision":"deny"}`).code(404, "not-found")
	}
	bad := func(body string, status int, code string) {
		t.Helper()
		d.send(d.careless(), "http://localhost/v1/approvals/"+one.ID, "POST", body).code(status, code)
	}
	bad(`{"decision":"perhaps"}`, 400, "invalid")
	bad(`{}`, 400, "invalid")
	bad(`{"decision":"deny","scope":"exact"}`, 400, "invalid")
	bad(`{"decision":"allow-always","scope":"world"}`, 400, "invalid")
	bad(`{"decision":"allow-always","scope":"subcommand"}`, 403, "denied") // -l is none
	bad(`{"decision":"deny","more":1}`, 400, "invalid")
	bad(`nonsense`, 400, "invalid")

	rec := d.do("POST", "/v1/approvals/"+one.Slug, `{"decision":"always","by":"alice\u001b[31m"}`).is(200).record()
	if rec.State != approval.Allowed || rec.Verdict != approval.AllowAlways || rec.Scope != approval.ScopeExact || rec.AnsweredBy != "alice" {
		t.Errorf("%+v", rec)
	}
	a := d.do("POST", "/v1/approvals/"+one.Slug, `{"decision":"deny","by":"bob"}`).code(409, "conflict")
	if !strings.Contains(a.body, `was answered allow-always by \"alice\" at `) {
		t.Error(a.body)
	}
	host, err := d.file.Rules("main")
	if err != nil || len(host.Rules) != 1 {
		t.Errorf("%+v, %v", host, err)
	}
	d.do("POST", "/v1/approvals/"+two.ID, `{"decision":"reject"}`).is(200)
	list("?state=denied", two.ID)
}

func TestOneAnswerCounts(t *testing.T) {
	d := newDesk(t)
	rec := d.ask("main", "ls")
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	var won []string
	for i := range 100 {
		wg.Go(func() {
			decision := []string{"allow-once", "deny"}[i%2]
			a := d.do("POST", "/v1/approvals/"+rec.ID, `{"decision":"`+decision+`"}`)
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
			if a.status == 200 {
				won = append(won, decision)
			}
		})
	}
	wg.Wait()
	if statuses[200] != 1 || statuses[409] != 99 {
		t.Fatalf("%v", statuses)
	}
	if now, err := d.Get("", rec.ID); err != nil || string(now.Verdict) != won[0] {
		t.Errorf("%s won, and %s counts: %v", won, now.Verdict, err)
	}
}

func TestApprovalChanges(t *testing.T) {
	d := newDesk(t)
	one := d.ask("main", "ls -l")
	if a := d.do("GET", "/v1/approvals/changes?after=0&once", "").is(200); strings.Count(a.body, "event: approval") != 1 || strings.Contains(a.body, "private") {
		t.Error(a.body)
	}
	if a := d.do("GET", "/v1/approvals/changes?once", "").is(200); strings.Contains(a.body, "event:") || !strings.Contains(a.body, "id: 1\n") {
		t.Error(a.body)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	resp, err := d.unix.Do(request(ctx, t, http.MethodGet, "http://localhost/v1/approvals/changes?agent=main&after=0", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	next := func() (rec approval.Record) {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(data), &rec); err != nil {
					t.Fatal(err)
				}
				return rec
			}
		}
		t.Fatalf("it ended: %v", lines.Err())
		return rec
	}
	if rec := next(); rec.ID != one.ID || rec.State != approval.Pending {
		t.Errorf("%+v", rec)
	}
	d.ask("other", "ls -a")
	d.do("POST", "/v1/approvals/"+one.ID, `{"decision":"deny"}`).is(200)
	if rec := next(); rec.ID != one.ID || rec.State != approval.Denied || rec.Seq != 3 {
		t.Errorf("%+v", rec)
	}
}

// A preview says which of the last commands a rule would change, and changes nothing.
func TestRulePreview(t *testing.T) {
	d := newDesk(t)
	d.server.cfg.Policy = &fakePolicy{}
	for range 3 {
		d.start("/bin/true", "")
	}
	d.start("echo", "")
	var got api.RuleEffects[policy.Outcome]
	try := func(body string, changed int) {
		t.Helper()
		a := d.do("POST", "/v1/approvals/rules/preview", body).is(200)
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.Commands != 4 || len(got.Changed) != changed {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	try(`{"pattern":"/bin/true"}`, 3)
	if c := got.Changed[0]; c.Agent != "main" || c.Command != "/bin/true" || c.Now != policy.Asked || c.Then != policy.Allowed {
		t.Errorf("%+v", c)
	}
	try(`{"pattern":"/bin/false","agent":"*"}`, 0)
	d.do("POST", "/v1/approvals/rules/preview", `{"pattern":"true"}`).code(400, "invalid")
	d.do("POST", "/v1/approvals/rules/preview", `{"pattern":"","remove":"none"}`).code(404, "not-found")
	if host, err := d.file.Rules("main"); err != nil || len(host.Rules) > 0 {
		t.Errorf("%+v, %v", host.Rules, err)
	}
}

func TestRules(t *testing.T) {
	d := newDesk(t)
	d.do("POST", "/v1/approvals/rules", `{"pattern":"/usr/bin/git status"}`).is(204)
	d.do("POST", "/v1/approvals/rules", `{"agent":"*","action":"deny","pattern":"rm -rf","reason":"no"}`).is(204)
	a := d.do("GET", "/v1/approvals/rules", "").is(200)
	var got api.Rules[policy.Rule]
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Rules) != 2 || got.Agent != "main" || got.File != d.file.Path() {
		t.Fatalf("%s: %v", a.body, err)
	}
	bad := func(body string) {
		t.Helper()
		d.send(d.careless(), "http://localhost/v1/approvals/rules", "POST", body).code(400, "invalid")
	}
	bad(`{"pattern":"git"}`) // a base name allows nothing
	bad(`{"pattern":""}`)
	bad(`{"pattern":"/bin/x","action":"perhaps"}`)
	bad(`{"pattern":"/bin/x","agent":"no name"}`)
	d.do("DELETE", "/v1/approvals/rules?ref=rm+-rf", "").code(404, "not-found")
	d.do("DELETE", "/v1/approvals/rules?ref=rm+-rf&agent=*", "").is(200)
	d.do("DELETE", "/v1/approvals/rules?ref="+got.Rules[1].ID, "").is(200)
	d.send(d.careless(), "http://localhost/v1/approvals/rules", "DELETE", "").code(404, "not-found")
	if a := d.do("GET", "/v1/approvals/rules?agent=*", "").is(200); !strings.Contains(a.body, `"rules":[]`) {
		t.Error(a.body)
	}
}

func TestWithoutApprovals(t *testing.T) {
	g := newRig(t, nil)
	for _, path := range []string{"", "/x", "/changes", "/rules"} {
		g.do("GET", "/v1/approvals"+path, "").code(404, "not-found")
	}
	g.do("POST", "/v1/approvals/x", `{"decision":"deny"}`).code(404, "not-found")
	g.do("POST", "/v1/approvals/rules", `{"pattern":"/bin/x"}`).code(404, "not-found")
	g.do("DELETE", "/v1/approvals/rules?ref=x", "").code(404, "not-found")
}

// A token lets a platform pass on one answer to one approval. What is allowed from then
// on is for the operator.
func TestTokenWidensNothing(t *testing.T) {
	d := newDesk(t)
	rec := d.ask("main", "tool x")
	for _, tc := range []struct {
		method, path, body string
	}{
		{"POST", "/v1/approvals/" + rec.ID, `{"decision":"allow-always"}`},
		{"POST", "/v1/approvals/" + rec.ID, `{"decision":"always","scope":"exact","by":"operator"}`},
		{"POST", "/v1/approvals/rules", `{"pattern":"/usr/bin/*"}`},
		{"POST", "/v1/approvals/rules", `{"pattern":"/usr/bin/*","agent":"*"}`},
		{"DELETE", "/v1/approvals/rules?ref=rm", ""},
	} {
		status, body := d.say(d.tcp, tc.method, tc.path, tc.body)
		if status != 403 || !strings.Contains(body, "is for the operator") {
			t.Errorf("%s %s %s: %d %s", tc.method, tc.path, tc.body, status, body)
		}
		// A sender has no rights where no policy gives any.
		if status, body := d.say(d.unix, tc.method, tc.path, tc.body, "Corral-Sender", "telegram:1"); status != 403 {
			t.Errorf("%s %s %s: %d %s", tc.method, tc.path, tc.body, status, body)
		}
	}
	if host, err := d.file.Rules("main"); err != nil || len(host.Rules) > 0 {
		t.Errorf("%+v, %v", host.Rules, err)
	}
	if now, err := d.Get("", rec.ID); err != nil || now.State != approval.Pending {
		t.Errorf("%+v, %v", now.State, err)
	}
	if status, body := d.say(d.unix, "POST", "/v1/approvals/rules", `{"pattern":"/usr/bin/tool"}`); status != 204 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := d.say(d.tcp, "POST", "/v1/approvals/"+rec.ID, `{"decision":"allow-once"}`); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

// All that is pending is denied at once, and nothing is allowed so.
func TestDenyAll(t *testing.T) {
	d := newDesk(t)
	first, second, other := d.ask("main", "tool a"), d.ask("main", "tool b"), d.ask("nightly", "tool c")
	if status, body := d.say(d.unix, "POST", "/v1/approvals", `{"decision":"allow-once"}`); status != 400 || !strings.Contains(body, "can only be denied") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := d.say(d.tcp, "POST", "/v1/approvals", `{"decision":"deny","agent":"main","by":"alice"}`); status != 200 || strings.Count(body, `"approvalId"`) != 2 || !strings.Contains(body, `"answeredBy":"alice"`) {
		t.Errorf("%d %s", status, body)
	}
	for id, want := range map[string]approval.State{first.ID: approval.Denied, second.ID: approval.Denied, other.ID: approval.Pending} {
		if now, err := d.Get("", id); err != nil || now.State != want {
			t.Errorf("%s: %v, %v", id, now.State, err)
		}
	}
	if status, body := d.say(d.unix, "POST", "/v1/approvals", `{"decision":"deny"}`); status != 200 || !strings.Contains(body, other.ID) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := d.say(d.unix, "POST", "/v1/approvals", `{"decision":"deny"}`); status != 200 || body != `{"approvals":[]}` {
		t.Errorf("%d %s", status, body)
	}
}
