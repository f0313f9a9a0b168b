package runshell

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
)

// vector is a line of testdata/qwen.jsonl: an answer of another implementation of the
// tool, and sometimes a better one (Want). Answers are compared topic by topic; known
// differences are in disagreements.
type vector struct {
	ID, Topic, Impl string
	Input           json.RawMessage
	Config          vectorConfig
	Expected, Want  map[string]json.RawMessage

	asked map[string]bool // the answers that the check has compared
}

type vectorConfig struct {
	CoreTools, ExcludeTools []string
	SessionAllowlist        []string
	Allow, Deny             []string
	ToolsCore               []string `json:"tools.core"`
	Rules                   []struct {
		CommandPrefix any
		Decision      string
	}
	Default string
}

// answer reads the wanted answer of a name, or if there is none, the original one.
func (v vector) answer(t *testing.T, name string, into any) bool {
	t.Helper()
	v.asked[name] = true
	text, ok := v.Want[name]
	if !ok {
		text, ok = v.Expected[name]
	}
	if !ok {
		return false
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
	return true
}

// input reads the input of the row. A field that the check does not know is an error, since
// it would not be tested.
func (v vector) input(t *testing.T, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(v.Input))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", v.ID, err)
	}
}

// complete fails if the check has not compared an answer of the row, unless unchecked
// gives a reason.
func (v vector) complete(t *testing.T) {
	t.Helper()
	answers := v.Expected
	if v.Want != nil { // it replaces the original answers
		answers = v.Want
	}
	for name := range answers {
		if !v.asked[name] && unchecked[v.ID+" "+name] == "" {
			t.Errorf("%s: its %s is not checked: %s", v.ID, name, answers[name])
		}
	}
}

// unchecked are answers that no check compares, and why.
var unchecked = map[string]string{
	"subst-074 fails_before_execution":  "Check, which says that it is denied, starts nothing",
	"exec-001 second_stdout":            "it has a placeholder; the check compares the output with the root of the test",
	"exec-006 returns":                  "the check fails of every call that takes long",
	"exec-007 returns":                  "the check fails of every call that takes long",
	"exec-042 elapsed_s":                "no limit so short holds on a machine under load: conformance says how long a descendant delays a result",
	"exec-045 elapsed_s":                "the check fails of every call that takes long",
	"exec-047 err":                      "it is the text of an error of Go's os/exec",
	"valid-017 normalised":              "it is a sentence; that the call is taken is checked",
	"valid-020 error_is_bare_ampersand": "there is no such error: a trailing & is taken",
	"valid-022 error_is_bare_ampersand": "there is no such error: a trailing & is taken",
	"result-026 display":                "the result has one text, which is the other one",
	"output-007 output":                 "the result has no text of both streams",
	"output-014 argv":                   "the check has the beginning and the end of the command line, which on Windows is one text",
	"output-014 detached":               "no executor runs on Windows yet",
}

func (v vector) command(t *testing.T) string {
	t.Helper()
	var in struct{ Command string }
	if err := json.Unmarshal(v.Input, &in); err != nil { // other fields are for arguments
		t.Fatal(err)
	}
	return in.Command
}

// topics checks the vectors of a topic: a difference is a sentence.
var topics = map[string]func(t *testing.T, v vector) string{
	"allow-decision":      checkAllow,
	"split-chain":         checkSplit,
	"roots":               checkRoots,
	"strip-wrapper":       checkInner,
	"substitution-detect": checkSubstitution,
	"rule-match":          checkMatch,
	"rules-extract":       checkExtract,
	"confirmation":        checkConfirmation,
	"validation":          checkValidation,
	"description":         checkDescription,
	"result-shape":        checkResult,
	"exec-behaviour":      checkRun,
	"output":              checkOutput,
	"escape":              nil, // none of them applies
}

func readVectors(t *testing.T) (list []vector) {
	t.Helper()
	f, err := os.Open("testdata/qwen.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		v := vector{asked: map[string]bool{}}
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestVectors(t *testing.T) {
	seen := map[string]bool{}
	ran, agreed := 0, 0
	for _, v := range readVectors(t) {
		check, ok := topics[v.Topic]
		if !ok {
			t.Fatalf("nothing here checks the topic %s", v.Topic)
		}
		seen[v.ID] = true
		why := disagreements[v.ID]
		if notApplicable[v.ID] != "" {
			continue
		}
		ran++
		got := check(t, v)
		if got == "" {
			v.complete(t)
		}
		switch {
		case got == "" && why == "":
			agreed++
		case got == "":
			t.Errorf("%s agrees: take it off the list", v.ID)
		case why == "":
			t.Errorf("%s (%s) %s: %s", v.ID, v.Impl, v.Input, got)
		}
	}
	for _, list := range []map[string]string{disagreements, notApplicable} {
		for id := range list {
			if !seen[id] {
				t.Errorf("there is no vector %s", id)
			}
		}
	}
	t.Logf("%d of %d vectors agree", agreed, ran)
	if agreed*100 < 95*ran {
		t.Errorf("only %d of %d vectors agree", agreed, ran)
	}
}

func newTool(t *testing.T, cfg Config) *Tool {
	t.Helper()
	if cfg.Executor == nil {
		ex := &fakeexec.Executor{}
		t.Cleanup(func() { ex.Close() })
		cfg.Executor = ex
	}
	cfg.Profile = cmp.Or(cfg.Profile, pathenv.ProfileQwen)
	if cfg.Root == "" && cfg.Dir == "" {
		cfg.Root = t.TempDir()
	}
	tool, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// tool is a tool with the vector's configuration, in our terms.
func (v vector) tool(t *testing.T) (*Tool, bool) {
	t.Helper()
	c := v.Config
	cfg := Config{Profile: pathenv.ProfileQwen, CoreTools: slices.Concat(c.CoreTools, c.Allow, c.ToolsCore), ExcludeTools: slices.Concat(c.ExcludeTools, c.Deny)}
	if strings.HasPrefix(v.Impl, "gemini-0.") { // asimi has its rules
		cfg.Profile = pathenv.ProfileAsimi
	}
	if c.SessionAllowlist != nil {
		cfg.Approve = deny
	}
	for _, r := range c.Rules {
		var prefixes []string
		switch p := r.CommandPrefix.(type) {
		case string:
			prefixes = []string{p}
		case []any:
			for _, s := range p {
				prefixes = append(prefixes, s.(string))
			}
		}
		for _, p := range prefixes {
			if entry := "run_shell_command(" + p + ")"; r.Decision == "deny" {
				cfg.ExcludeTools = append(cfg.ExcludeTools, entry)
			} else {
				cfg.CoreTools = append(cfg.CoreTools, entry)
			}
		}
	}
	rules, err := parseRestrictions(cfg.CoreTools, cfg.ExcludeTools)
	cfg.CoreTools, cfg.ExcludeTools = nil, nil
	tool := newTool(t, cfg)
	tool.rules = rules // also if New would return an error for them
	session, _ := parseRules(entries(c.SessionAllowlist))
	tool.approved.add(session.list)
	return tool, err != nil
}

func entries(prefixes []string) (list []string) {
	for _, p := range prefixes {
		list = append(list, "run_shell_command("+p+")")
	}
	return list
}

func checkAllow(t *testing.T, v vector) string {
	tool, malformed := v.tool(t)
	got := tool.Check(v.command(t))
	var configError bool
	if v.answer(t, "config_error", &configError); configError != malformed {
		return "a mistake in the configuration was not seen"
	}
	var allowed, hard bool
	if v.answer(t, "allAllowed", &allowed) || v.answer(t, "allowed", &allowed) {
		if allowed != (got.Outcome == policy.Allowed) {
			return string(got.Outcome) + ": " + got.Reason
		}
	}
	if v.answer(t, "isHardDenial", &hard) && !allowed && hard != got.hard() {
		return string(got.Outcome) + ": " + got.Reason
	}
	var decision string
	if v.answer(t, "decision", &decision) {
		want := map[string]policy.Outcome{"allow": policy.Allowed, "ask": policy.Asked, "ask_user": policy.Asked, "deny": policy.Denied}[decision]
		if want == policy.Denied && got.Outcome == policy.Asked && len(v.Config.ToolsCore) > 0 {
			want = policy.Asked // without an Approver
		}
		if got.Outcome != want {
			return string(got.Outcome) + ": " + got.Reason
		}
	}
	if v.Want != nil {
		return ""
	}
	var parts []string
	if v.answer(t, "disallowedCommands", &parts) && len(parts) > 0 && !slices.Equal(parts, got.Parts) {
		return strings.Join(got.Parts, "|")
	}
	var reason string
	if v.answer(t, "blockReason", &reason) && !strings.HasPrefix(got.Reason, reason) && // 0.1.15 does not name the parts, nor backquotes
		reason != "Command substitution using $(), <(), or >() is not allowed for security reasons" {
		return got.Reason
	}
	return ""
}

// outer are the parts that are written in the command itself.
func outer(command string) (list []string, unreadable bool) {
	segments, findings := policy.Parts(command, "bash")
	for _, s := range segments {
		if s.Depth == 0 && len(s.Wrappers) == 0 {
			list = append(list, s.Text)
		}
	}
	return list, slices.ContainsFunc(findings, policy.Finding.Hides)
}

func checkSplit(t *testing.T, v vector) string {
	var want []string
	var bad bool
	v.answer(t, "parts", &want)
	got, unreadable := outer(v.command(t))
	if v.answer(t, "parse_error", &bad) || len(want) == 0 && v.Impl == "gemini-head" && unreadable {
		if !unreadable {
			return "it was read"
		}
		return ""
	}
	// The wanted texts contain redirections, tests and substitutions. Parse them like
	// the command to get their parts.
	var read []string
	for _, w := range want {
		list, _ := outer(strings.TrimSpace(w))
		for _, p := range list {
			if slices.Contains(read, p) {
				continue // part of a substitution, which is listed separately
			}
			read = append(read, p)
		}
	}
	if !slices.Equal(read, got) {
		return strings.Join(got, " | ")
	}
	return ""
}

func checkRoots(t *testing.T, v vector) string {
	var want, got []string
	v.answer(t, "roots", &want)
	segments, _ := policy.Parts(v.command(t), "bash")
	for _, s := range segments {
		if s.Depth > 0 || len(s.Wrappers) > 0 {
			continue
		}
		root := s.Argv[0]
		if v.Impl != "gemini-head" {
			root = path.Base(root)
		}
		got = append(got, root)
	}
	if !slices.Equal(want, got) {
		return strings.Join(got, " | ")
	}
	return ""
}

func checkInner(t *testing.T, v vector) string {
	var inner string
	v.answer(t, "inner", &inner)
	all, _ := parts(v.command(t))
	if inner == strings.TrimSpace(v.command(t)) { // there is no wrapper
		if len(all) != 1 {
			return "it is looked through"
		}
		return ""
	}
	want, _ := parts(inner)
	if len(all) == 0 || !slices.Equal(written(want), written(all[1:])) {
		return strings.Join(written(all), " | ")
	}
	return ""
}

func checkSubstitution(t *testing.T, v vector) string {
	var want bool
	v.answer(t, "substitution", &want)
	got := newTool(t, Config{Profile: pathenv.ProfileAsimi}).Check(v.command(t))
	if want && !got.hard() || !want && strings.HasPrefix(got.Reason, substitution) {
		return string(got.Outcome) + ": " + got.Reason
	}
	return ""
}

func checkMatch(t *testing.T, v vector) string {
	var in struct{ Pattern, Command string }
	v.input(t, &in)
	var want bool
	v.answer(t, "match", &want)
	tool := newTool(t, Config{CoreTools: entries([]string{in.Pattern})})
	if got := tool.Check(in.Command); (got.Outcome == policy.Allowed) != want {
		return got.Reason
	}
	return ""
}

func checkExtract(t *testing.T, v vector) string {
	var want, got []string
	v.answer(t, "rules", &want)
	list, _ := parts(v.command(t))
	for _, p := range list {
		if _, text, ok := narrowest(p.Words); ok {
			got = append(got, text)
		}
	}
	if !slices.Equal(want, got) {
		return strings.Join(got, " | ")
	}
	return ""
}
