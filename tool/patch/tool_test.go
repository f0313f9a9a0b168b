//go:build unix

package patch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

func TestArguments(t *testing.T) {
	for raw, want := range map[string]string{
		``:                        "Provide a patch input.",
		`null`:                    "Provide a patch input.",
		`{}`:                      "Provide a patch input.",
		`{"input": null}`:         "Provide a patch input.",
		`{"input": " \n"}`:        "Provide a patch input.",
		`{"input": 5}`:            "input: 5 is not a string",
		`[]`:                      "the arguments are no JSON object",
		`"*** Begin Patch"`:       "the arguments are no JSON object",
		`{"input": "x"} {}`:       "the arguments go on after their end",
		`{"input": "x"`:           "the arguments are no JSON object",
		`{"patch": "x"}`:          "Only the parameter \"input\" is known; ignored: \"patch\".\nProvide a patch input.",
		strings.Repeat(" ", 26e6): "the arguments have 26000000 bytes",
	} {
		r := New(Config{Target: Directory{Path: t.TempDir()}}).Call(t.Context(), json.RawMessage(raw))
		if r.Status != StatusFailed || r.Reason != ReasonInvalid || !strings.Contains(r.Text(), want) || r.Hint == "" {
			t.Errorf("%.30q: %+v", raw, r)
		}
	}
}

// Every result is valid by the schema, and its lists are never null.
func TestResults(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.txt": "one\ntwo\n"})
	def := New(Config{}).Definition()
	out, err := def.Output.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ patch, want string }{
		{patchOf("*** Update File: a.txt", "@@", " one", "-tow", "+three"), `{
			"status": "failed", "reason": "invalid",
			"error": "Failed to find expected lines in a.txt: chunk 1, at line 3 of the patch; the nearest is at line 1 of the file",
			"hint": "read the file again, and copy its lines exactly",
			"summary": {"added": [], "modified": [], "deleted": []},
			"match": {"path": "a.txt", "chunk": 1, "line": 3, "context": false, "expected": ["one", "tow"], "nearest": {"line": 1, "diff": [" one", "-tow", "+two"]}},
			"text": "Failed to find expected lines in a.txt: chunk 1, at line 3 of the patch; the nearest is at line 1 of the file\nExpected:\n  one\n  tow\nNearest, at line 1 of a.txt (- expected, + in the file):\n   one\n  -tow\n  +two\nNo file was changed. Read the file again, and copy its lines exactly.",
			"warnings": []}`},
		{patchOf("*** Update File: a.txt", "@@", " one", "-two", "+three"), `{
			"status": "completed", "summary": {"added": [], "modified": ["a.txt"], "deleted": []},
			"text": "Success. Updated the following files:\nM a.txt", "warnings": []}`},
	} {
		r := call(t, dir, c.patch)
		got, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if err := json.Unmarshal(got, &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.want), &b); err != nil {
			t.Fatal(err)
		}
		if !jsonschema.Equal(a, b) {
			t.Errorf("%s", got)
		}
		if err := out.Validate(a); err != nil {
			t.Error(err)
		}
	}
	in, err := json.Marshal(def.Input)
	if err != nil || !strings.Contains(string(in), `"required":["input"]`) || def.Name != "apply_patch" {
		t.Errorf("%s, %v", in, err)
	}
}

// 003: 「OpenAI／OpenAI Codex モデルでのみ利用可能です。」「明示的に有効化する必要があります」
// 004: “仅适用于 OpenAI/Codex 模型。需要在 `tools.exec.applyPatch` 下的配置中显式启用。”
func TestEnabled(t *testing.T) {
	// 003: applyPatch: { enabled: true, allowModels: ["gpt-5.2"] }
	listed := Settings{Enabled: true, AllowModels: []string{"gpt-5.2"}}
	all := Settings{Enabled: true}
	for _, c := range []struct {
		model string
		s     Settings
		want  bool
	}{
		{"gpt-5.2", Settings{}, false},
		{"gpt-5.2", Settings{AllowModels: []string{"gpt-5.2"}}, false},
		{"gpt-5.2", listed, true},
		{"GPT-5.2 ", listed, true},
		{"openai/gpt-5.2", listed, true},
		{"openai-codex/gpt-5.2", listed, true},
		{"openrouter/openai/gpt-5.2", listed, true},
		{"openai/gpt-5.2-codex", listed, false},
		{"openai/gpt-5", listed, false},
		{"anthropic/gpt-5.2", listed, false},
		{"openai/gpt-5.2", Settings{true, []string{"openai-codex/gpt-5.2"}}, false},
		{"openai-codex/gpt-5.2", Settings{true, []string{"openai-codex/GPT-5.2"}}, true},
		{"openai/gpt-5.2", Settings{true, []string{"", " "}}, false},
		{"o3", all, true},
		{"o4-mini", all, true},
		{"o30", all, false},
		{"codex-mini-latest", all, true},
		{"openai/whatever", all, true},
		{"claude-opus-4", all, false},
		{"google/gemini-3", all, false},
		{"gptish", all, false},
		{"openai/", all, false},
		{"", all, false},
	} {
		if ok, why := Enabled(c.model, c.s); ok != c.want || (why == "") != ok {
			t.Errorf("%q, %+v: %t, %q", c.model, c.s, ok, why)
		}
	}
}

// 003: 「複数ファイル編集」. Its settings are below tools.exec.applyPatch.
func TestSettingsJSON(t *testing.T) {
	var s Settings
	if err := json.Unmarshal([]byte(`{"enabled": true, "allowModels": ["gpt-5.2"]}`), &s); err != nil || !s.Enabled || !slices.Equal(s.AllowModels, []string{"gpt-5.2"}) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestNoWorkspace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none"), file} {
		if r := call(t, path, patchOf("*** Add File: x", "+x")); r.Reason != ReasonWorkdir || !strings.Contains(r.Text(), path) {
			t.Errorf("%+v", r)
		}
	}
	r := New(Config{Target: NewCommands(nil, "relative")}).Call(t.Context(), callArguments(t, patchOf("*** Add File: x", "+x")))
	if r.Reason != ReasonInvalid {
		t.Errorf("%+v", r)
	}
}

// The example of the document is run: the tool does what it shows.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/apply_patch.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var patches []string
	for _, block := range strings.Split(string(text), "```")[1:] {
		kind, body, _ := strings.Cut(block, "\n")
		switch name, isFile := strings.CutPrefix(kind, "file "); {
		case isFile:
			write(t, dir, map[string]string{name: body})
		case kind == "patch":
			patches = append(patches, body)
		case kind == "answer":
			r := call(t, dir, patches[len(patches)-1])
			if r.Text() != strings.TrimSpace(body) {
				t.Errorf("%s", r.Text())
			}
		}
	}
	if len(patches) < 2 {
		t.Errorf("%d patches", len(patches))
	}
}
