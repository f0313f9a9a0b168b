package approval

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

type vector struct {
	ID, Topic, Fn string
	Input, Expect json.RawMessage
}

// disagreements are the vectors for which the answer here differs, and why. They are
// checked all the same: the answer must be the one that is written here.
var disagreements = map[string]string{
	"PO-019": "the security is deny as there, but since an invalid value closes the whole file and not since defaults say so",
	"PO-021": "16 digits of a digest are 64 bits: whoever chooses both commands finds two of them with the same ones",
	"ST-001": "where the file is, is said by whoever opens it: Corral has a state directory of its own",
	"ST-008": "the digest has all of its 64 digits",
	"ST-014": "an invalid value closes the file, and does not make it as if nothing was said",
	"ST-018": "no socket asks for approvals; the word it answers is read",
	"BI-006": "what a caller changed is refused, and not replaced by what was approved",
}

func TestVectors(t *testing.T) {
	file, err := os.Open("testdata/vectors.jsonl")
	ok(t, err)
	defer file.Close()
	seen := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var v vector
		ok(t, json.Unmarshal(lines.Bytes(), &v))
		seen[v.ID] = true
		t.Run(v.ID, func(t *testing.T) {
			run, known := vectorFuncs[v.Fn]
			if !known {
				t.Fatalf("nothing is known of %s", v.Fn)
			}
			run(t, v)
		})
	}
	ok(t, lines.Err())
	for id := range disagreements {
		if !seen[id] {
			t.Errorf("there is no vector %s", id)
		}
	}
}

func fields[T any](t *testing.T, raw json.RawMessage) T {
	t.Helper()
	var v T
	ok(t, json.Unmarshal(raw, &v))
	return v
}

// equal compares an answer with the vector's.
func equal(t *testing.T, v vector, got any) {
	t.Helper()
	b, err := json.Marshal(got)
	ok(t, err)
	if diff := cmp.Diff(fields[any](t, v.Expect), fields[any](t, b)); diff != "" {
		t.Errorf("(-vector +ours):\n%s", diff)
	}
}

type object = map[string]any

// documentOf is a file with this document.
func documentOf(t *testing.T, doc object) *File {
	t.Helper()
	doc["version"] = 1
	b, err := json.Marshal(doc)
	ok(t, err)
	return newFile(t, string(b))
}

func settingsOf(m map[string]string) Settings {
	return Settings{
		Security:    policy.Setting[policy.Security]{Value: policy.Security(m["security"])},
		Ask:         policy.Setting[policy.Ask]{Value: policy.Ask(m["ask"])},
		AskFallback: policy.Setting[policy.Security]{Value: policy.Security(m["askFallback"])},
	}
}

// allowlist is a document with these entries in the allowlist of main.
func allowlist(entries ...any) object {
	return object{"agents": object{"main": object{"allowlist": entries}}}
}

var vectorFuncs = map[string]func(*testing.T, vector){
	"min_security": func(t *testing.T, v vector) {
		in := fields[map[string]policy.Security](t, v.Input)
		equal(t, v, object{"value": policy.Stricter(policy.Securities, in["a"], in["b"])})
	},
	"max_ask": func(t *testing.T, v vector) {
		in := fields[map[string]policy.Ask](t, v.Input)
		equal(t, v, object{"value": policy.Stricter(policy.Asks, in["a"], in["b"])})
	},
	"effective": vectorEffective,
	"requires_approval": func(t *testing.T, v vector) {
		in := fields[struct {
			Ask, Security                  string
			AnalysisOk, Satisfied, Durable bool
		}](t, v.Input)
		m := newMachine(t)
		req := m.req
		req.Command = "git status"
		if !in.AnalysisOk {
			req.Command = "git 'status"
		}
		s := settingsOf(map[string]string{"ask": in.Ask, "security": in.Security})
		rules := policy.Rules{Security: s.Security, Ask: s.Ask}
		if in.Satisfied || in.Durable {
			rules.List = []policy.Rule{{Action: policy.Allow, Command: req.Command}}
		}
		d := policy.Decide(req, rules, policy.OS{})
		equal(t, v, object{"value": d.Outcome == policy.Asked})
	},
	"durable": vectorDurable,
	"decisions": func(t *testing.T, v vector) {
		in := fields[map[string]string](t, v.Input)
		got, _ := decisions(policy.Decision{Ask: settingsOf(in).Ask}, []Preview{{Scope: ScopeExact}}, true)
		equal(t, v, object{"allowed": got})
	},

	"paths": func(t *testing.T, _ vector) {
		f, err := NewFile(filepath.Join(t.TempDir(), "exec-approvals.json"), nil)
		if err != nil || filepath.Base(f.Path()) != "exec-approvals.json" {
			t.Error(err)
		}
	},
	"save":           vectorSave,
	"add_command":    vectorAddCommand,
	"record_use":     vectorRecordUse,
	"normalise":      vectorNormalise,
	"migrate":        vectorMigrate,
	"socket_request": func(t *testing.T, v vector) { equalVerdict(t, v) },

	"forward_guard": vectorForward,
	"revalidate": func(t *testing.T, _ vector) {
		m := newMachine(t)
		was := m.bind("bash run.sh", nil)
		m.write(filepath.Join(m.w, "run.sh"), "echo 2\n")
		wantKind(t, was.Check(m.bind("bash run.sh", nil)), corral.ErrDenied, "run.sh was changed after it was approved")
	},
}

func equalVerdict(t *testing.T, v vector) {
	t.Helper()
	in := fields[struct{ Reply map[string]string }](t, v.Input)
	want := fields[struct{ Decision Verdict }](t, v.Expect)
	if got, err := ParseVerdict(in.Reply["decision"]); in.Reply["type"] == "decision" && (err != nil || got != want.Decision) {
		t.Errorf("%s, %v", got, err)
	}
}

func vectorEffective(t *testing.T, v vector) {
	in := fields[struct {
		Agent                             string
		Requested, Host                   map[string]string
		HostStar, HostDefaults, HostAgent map[string]string
	}](t, json.RawMessage(strings.NewReplacer("host_star", "hostStar", "host_defaults", "hostDefaults", "host_agent", "hostAgent").Replace(string(v.Input))))
	host := settingsOf(in.Host)
	if in.HostStar != nil || in.HostDefaults != nil || in.HostAgent != nil {
		f := documentOf(t, object{"defaults": in.HostDefaults, "agents": object{"*": in.HostStar, in.Agent: in.HostAgent}})
		h, err := f.Rules(in.Agent)
		if _, ours := disagreements[v.ID]; ours != (err != nil) {
			t.Errorf("the file: %v", err)
		}
		host = h.Settings
	}
	got := Effective(settingsOf(in.Requested), host)
	for key, want := range fields[map[string]string](t, v.Expect) {
		switch key {
		case "security":
			if string(got.Security.Value) != want {
				t.Errorf("security %s, want %s", got.Security.Value, want)
			}
		case "ask":
			if string(got.Ask.Value) != want {
				t.Errorf("ask %s, want %s", got.Ask.Value, want)
			}
		case "askFallback":
			if string(got.AskFallback.Value) != want {
				t.Errorf("askFallback %s, want %s", got.AskFallback.Value, want)
			}
		case "source":
			if disagreements[v.ID] == "" && got.Security.Source.Key != want {
				t.Errorf("source %s, want %s", got.Security.Source.Key, want)
			}
		}
	}
}

// vectorDurable: a command is trusted for good only if a rule allows each of its segments.
func vectorDurable(t *testing.T, v vector) {
	in := fields[struct {
		Entries        []object
		SegmentEntries []*string `json:"segment_entries"`
		Command        string
	}](t, v.Input)
	want := fields[struct{ Value bool }](t, v.Expect).Value
	m := newMachine(t)
	command := in.Command
	doc := allowlist()
	if in.SegmentEntries != nil {
		programs := []string{"git", "ls", "make", "curl"}
		var entries []any
		var segments []string
		for i, e := range in.SegmentEntries {
			segments = append(segments, programs[i]+" x")
			if e != nil {
				entries = append(entries, object{"pattern": filepath.Join(m.d, programs[i]), "source": *e})
			}
		}
		command, doc = strings.Join(segments, " | "), allowlist(entries...)
	} else {
		for _, e := range in.Entries {
			doc = allowlist(e)
		}
		if disagreements[v.ID] != "" {
			h, err := documentOf(t, doc).Rules("")
			ok(t, err)
			if len(h.Rules) != 0 || len(h.Warnings) != 1 {
				t.Errorf("%+v", h)
			}
			doc = allowlist(object{"pattern": commandPattern(command)})
		}
	}
	h, err := documentOf(t, doc).Rules("")
	ok(t, err)
	_, d := m.decide(command, h.Rules...)
	if (d.Outcome == policy.Allowed) != want {
		t.Errorf("%s: %s", d.Outcome, d.Reason)
	}
}

func vectorSave(t *testing.T, v vector) {
	in := fields[map[string]string](t, v.Input)
	want := fields[map[string]string](t, v.Expect)["error_contains"]
	f := newFile(t, "")
	path := f.Path()
	if in["path"] != "" {
		ok(t, os.Symlink(filepath.Join(t.TempDir(), "x"), path))
	} else {
		link := filepath.Join(filepath.Dir(path), "link")
		ok(t, os.Symlink(t.TempDir(), link))
		path = filepath.Join(link, "exec-approvals.json")
	}
	f, err := NewFile(path, nil)
	ok(t, err)
	wantKind(t, f.Set([]byte(`{"version": 1}`), ""), corral.ErrDenied, want)
}

func vectorAddCommand(t *testing.T, v vector) {
	in := fields[struct{ Command string }](t, v.Input)
	want := fields[struct {
		Pattern string `json:"pattern_regex"`
	}](t, v.Expect).Pattern
	if disagreements[v.ID] != "" {
		want = strings.Replace(want, "{16}", "{64}", 1)
	}
	f := newFile(t, "")
	ok(t, f.Add("", ScopeExact, policy.Rule{Action: policy.Allow, Command: in.Command}))
	text, _, err := f.Get()
	ok(t, err)
	doc := fields[struct {
		Agents map[string]struct{ Allowlist []struct{ Pattern string } }
	}](t, text)
	if got := doc.Agents["main"].Allowlist[0].Pattern; !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("pattern %s", got)
	}
	for word := range strings.FieldsSeq(in.Command) {
		if strings.Contains(string(text), strings.Trim(word, `"`)) {
			t.Errorf("%q is in %s", word, text)
		}
	}
}

func vectorRecordUse(t *testing.T, v vector) {
	in := fields[struct{ Pattern, Command, Resolved string }](t, v.Input)
	want := fields[struct {
		LastUsedAt                        int64
		LastUsedCommand, LastResolvedPath string
	}](t, v.Expect)
	f := documentOf(t, allowlist(object{"pattern": in.Pattern}))
	h, err := f.Rules("")
	ok(t, err)
	f.Used(in.Command, policy.Decision{Segments: []policy.Segment{{Rule: &h.Rules[0], Path: in.Resolved}}})
	ok(t, f.Flush())
	text, _, err := f.Get()
	ok(t, err)
	doc := fields[struct {
		Agents map[string]struct {
			Allowlist []struct {
				ID                                string
				LastUsedAt                        int64
				LastUsedCommand, LastResolvedPath string
			}
		}
	}](t, text)
	e := doc.Agents["main"].Allowlist[0]
	if e.ID == "" || e.LastUsedAt < want.LastUsedAt || e.LastUsedCommand != want.LastUsedCommand || e.LastResolvedPath != want.LastResolvedPath {
		t.Errorf("%+v", e)
	}
}

func vectorNormalise(t *testing.T, v vector) {
	in := fields[struct{ Allowlist, Defaults any }](t, v.Input)
	if in.Defaults != nil {
		_, err := documentOf(t, object{"defaults": in.Defaults}).Rules("")
		wantKind(t, err, corral.ErrDenied, "defaults.security")
		return
	}
	f := documentOf(t, object{"agents": object{"main": object{"allowlist": in.Allowlist}}})
	h, err := f.Rules("")
	ok(t, err)
	var patterns []string
	for _, r := range h.Rules {
		patterns = append(patterns, r.Pattern)
	}
	equal(t, v, object{"patterns": patterns})
}

func vectorMigrate(t *testing.T, v vector) {
	in := fields[object](t, v.Input)
	want := fields[struct {
		Main struct {
			Ask       string
			Allowlist []string
		}
		DefaultRemoved bool `json:"default_removed"`
	}](t, v.Expect)
	f := documentOf(t, in)
	check := func() {
		t.Helper()
		h, err := f.Rules("main")
		ok(t, err)
		var patterns []string
		for _, r := range h.Rules {
			patterns = append(patterns, r.Pattern)
		}
		if string(h.Ask.Value) != want.Main.Ask || !slices.Equal(patterns, want.Main.Allowlist) {
			t.Errorf("%+v", h)
		}
	}
	check()
	ok(t, f.Add("other", "", policy.Rule{Action: policy.Allow, Pattern: "/bin/x"}))
	check()
	text, _, err := f.Get()
	ok(t, err)
	agents := fields[struct{ Agents object }](t, text).Agents
	if _, there := agents["default"]; there == want.DefaultRemoved {
		t.Errorf("agents: %v", slices.Collect(maps.Keys(agents)))
	}
}

// vectorForward: the command that is started has to be the approved one.
func vectorForward(t *testing.T, v vector) {
	in := fields[struct {
		Argv         []string
		ApprovedArgv json.RawMessage         `json:"approved_argv"`
		Approved     string                  `json:"approved_command"`
		Stored       struct{ Argv []string } `json:"stored_plan"`
		Caller       struct{ Argv []string }
		Env          map[string]string
		Target       *string
		ApprovalNode json.RawMessage `json:"approval_nodeId"`
	}](t, v.Input)
	want := fields[struct {
		OK         bool
		Code       string
		SecondCode string `json:"second_code"`
	}](t, v.Expect)

	m := newMachine(t)
	bind := func(argv []string, command string, env map[string]string) (policy.Request, Binding) {
		req := m.req
		req.Args, req.Command = argv, command
		if command != "" {
			req.Args = nil
		}
		d := policy.Decide(req, policy.Rules{}, policy.OS{})
		b, err := Bind(req, d, env, policy.OS{})
		ok(t, err)
		return req, b
	}
	argv := in.Argv
	if argv == nil {
		argv = slices.Concat(in.Caller.Argv, in.Stored.Argv)
	}
	if len(argv) == 0 {
		argv = []string{"echo", "SAFE"}
	}
	approved := argv
	switch {
	case in.Stored.Argv != nil:
		argv, approved = in.Caller.Argv, in.Stored.Argv
	case len(in.ApprovedArgv) > 0 && in.ApprovedArgv[0] == '[':
		approved = fields[[]string](t, in.ApprovedArgv)
	}
	req := Request{Agent: "main", Host: corral.HostNode}
	switch {
	case len(in.ApprovalNode) > 0 && string(in.ApprovalNode) != "null":
		req.Node = fields[string](t, in.ApprovalNode)
	case len(in.ApprovalNode) == 0:
		req.Node = "node-1"
	}
	req.Command, req.Binding = bind(approved, in.Approved, nil)
	claim := Claim{CommandID: "first", Agent: "main", Host: corral.HostNode, Node: "node-1"}
	if in.Target != nil {
		claim.Node = *in.Target
	}
	_, claim.Binding = bind(argv, "", in.Env)

	d := openDesk(t, t.TempDir())
	r := ask(t, d, req)
	_, err := d.Answer(context.Background(), r.ID, Answer{Decision: AllowOnce})
	ok(t, err)
	_, err = d.Consume(context.Background(), r.ID, claim)
	allowed := want.OK || want.SecondCode != ""
	if disagreements[v.ID] != "" {
		allowed = false
	}
	switch {
	case allowed:
		ok(t, err)
	case err == nil:
		t.Errorf("it may run; want %s", want.Code)
	default:
		wantKind(t, err, corral.ErrDenied)
	}
	if want.SecondCode != "" {
		claim.CommandID = "second"
		_, err = d.Consume(context.Background(), r.ID, claim)
		wantKind(t, err, corral.ErrDenied)
	}
}
