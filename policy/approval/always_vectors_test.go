package approval

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral/policy"
)

// An alwaysVector has the rules that another tool, from which Corral's users come,
// remembers for a command, and the commands that it then allows. D/ is a directory of the
// system with all programs, CWD/ the working directory.
type alwaysVector struct {
	ID, Fn string
	Input  struct{ Command, First, Second, Persisted string }
	Expect map[string]any
}

// alwaysDiffers has the vectors for which Corral's answer differs, and why.
var alwaysDiffers = map[string]string{
	"AE-128": "code among the arguments can be remembered, as exactly these arguments and nothing else",
	"AE-136": carried, "AE-137": carried, "AE-141": carried,
	"AE-145": "busybox has to be allowed as well as what it runs; of what it can do, only shells are then looked through",
	"AE-151": "the rule is on the file: to execute it is allowed as much as to have a shell read it. What allow-always remembers of the first has the digest of the script and its arguments, and allows only that",
}

const carried = "a text that takes the program from its arguments is refused: a rule on what it carries does not allow it"

func TestAlwaysVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/always.jsonl")
	ok(t, err)
	seen := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		var v alwaysVector
		ok(t, json.Unmarshal([]byte(line), &v))
		seen[v.ID] = true
		t.Run(v.ID, func(t *testing.T) {
			m := newAlways(t)
			diff := cmp.Diff(v.Expect, m.answer(t, v))
			switch why, differs := alwaysDiffers[v.ID]; {
			case differs && diff == "":
				t.Errorf("does not differ, though it should: %s", why)
			case !differs && diff != "":
				t.Errorf("%+v (-want +got):\n%s", v.Input, diff)
			}
		})
	}
	for id := range alwaysDiffers {
		if !seen[id] {
			t.Errorf("there is no vector %s", id)
		}
	}
}

// alwaysMachine has the directories in which the commands of vectors are decided on.
type alwaysMachine struct {
	bin, dir string
	places   *strings.Replacer
}

func newAlways(t *testing.T) alwaysMachine {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	ok(t, err)
	m := alwaysMachine{bin: filepath.Join(root, "bin"), dir: filepath.Join(root, "work")}
	for _, dir := range []string{m.bin, filepath.Join(m.dir, "scripts")} {
		ok(t, os.MkdirAll(dir, 0o755))
	}
	for _, name := range strings.Fields("awk zsh sh bash whoami touch xargs echo busybox sed sudo nice id") {
		ok(t, os.WriteFile(filepath.Join(m.bin, name), []byte("#!/bin/sh\n"), 0o755))
	}
	for _, name := range []string{"script.awk", "data.csv", "scripts/save_crystal.sh", "scripts/evilrc"} {
		ok(t, os.WriteFile(filepath.Join(m.dir, name), []byte("#!/bin/sh\n"), 0o755))
	}
	m.places = strings.NewReplacer("D/", m.bin+"/", "CWD/", m.dir+"/", "/usr/bin/nice", m.bin+"/nice", "/bin/zsh", m.bin+"/zsh")
	return m
}

func (m alwaysMachine) decide(command string, list ...policy.Rule) (policy.Request, policy.Decision) {
	rules := policy.Rules{
		Security:    policy.Setting[policy.Security]{Value: policy.SecurityAllowlist},
		Ask:         policy.Setting[policy.Ask]{Value: policy.AskOnMiss},
		List:        list,
		SafeBinDirs: []string{m.bin},
	}
	req := policy.Request{Command: m.places.Replace(command), Shell: []string{"/bin/bash", "-c"}, Dir: m.dir, Path: m.bin, Home: m.dir}
	return req, policy.Decide(req, rules, policy.OS{})
}

func (m alwaysMachine) allow(path string) policy.Rule {
	return policy.Rule{Action: policy.Allow, Pattern: policy.QuotePattern(m.places.Replace(path))}
}

// remembered is the programs that would be remembered, in the widest scope available for
// each command.
func (m alwaysMachine) remembered(command string) []any {
	req, d := m.decide(command)
	list := []any{}
	for _, scope := range []Scope{ScopeProgram, ScopeExact} {
		entries, err := Remember(req, d, scope)
		if err != nil {
			continue
		}
		for _, r := range entries {
			if r.Pattern != "" {
				list = append(list, strings.ReplaceAll(r.Pattern, m.bin+"/", "D/"))
			}
		}
		break
	}
	return list
}

func (m alwaysMachine) answer(t *testing.T, v alwaysVector) map[string]any {
	t.Helper()
	got := map[string]any{}
	if v.Fn == "allow_always_bypass" {
		_, d := m.decide(v.Input.Second, m.allow(v.Input.Persisted))
		got["second_satisfied"] = d.Outcome == policy.Allowed
		got["second_requires_approval"] = d.Outcome == policy.Asked
		return got
	}
	got["persist"] = m.remembered(v.Input.Command)
	for key, path := range map[string]string{"allowlisted_by_script_path": "CWD/scripts/save_crystal.sh", "allowlisted_by_carried_path": "D/touch"} {
		if _, says := v.Expect[key]; !says {
			continue
		}
		if words := strings.Fields(v.Input.Command); key == "allowlisted_by_carried_path" {
			if i := slices.IndexFunc(words, func(w string) bool { return strings.HasSuffix(w, "'") }); i >= 0 {
				path = "D/" + words[i+1]
			}
		}
		_, d := m.decide(v.Input.Command, m.allow(path))
		got[key] = d.Outcome == policy.Allowed
	}
	return got
}
