//go:build unix

package patch

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A vector is a line of testdata/openclaw.jsonl: an answer of another implementation of
// this tool. All answers agree.
type vector struct {
	ID    string
	Input struct {
		Patch string
		Files map[string]string
	}
	Expect struct {
		Files            map[string]string
		Gone             []string
		Summary          Summary
		Error            bool
		ErrorContains    string `json:"error_contains"`
		OutsideCreated   *bool  `json:"outside_created"`
		TargetUnchanged  bool   `json:"target_unchanged"`
		OutsideUnchanged bool   `json:"outside_unchanged"`
	}
}

func TestVectors(t *testing.T) {
	f, err := os.Open("testdata/openclaw.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, seen := bufio.NewScanner(f), 0
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		seen++
		for _, target := range []string{"directory", "commands"} {
			t.Run(v.ID+"/"+target, func(t *testing.T) { v.check(t, target) })
		}
	}
	if err := lines.Err(); err != nil || seen == 0 {
		t.Fatal(seen, err)
	}
}

func (v vector) check(t *testing.T, target string) {
	top := t.TempDir()
	dir, outside := filepath.Join(top, "work"), filepath.Join(top, "outside")
	write(t, outside, map[string]string{"kept": "as it is\n"})
	files := map[string]string{}
	for name, content := range v.Input.Files {
		switch {
		case strings.HasPrefix(content, "symlink -> outside"):
			content = "-> ../outside"
		case strings.HasPrefix(content, "symlink -> "):
			content = "-> " + strings.Fields(content)[2]
		}
		files[name] = content
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, files)
	before := snapshot(t, top)

	r := New(Config{Target: targets[target](t, dir)}).Call(t.Context(), callArguments(t, v.Input.Patch))
	want := v.Expect
	if failed := want.Error || want.ErrorContains != ""; r.Failed() != failed || !strings.Contains(r.Text(), want.ErrorContains) {
		t.Fatalf("%+v", r)
	}
	after := snapshot(t, top)
	if r.Failed() {
		if d := differs(after, before); d != "" {
			t.Errorf("it failed, and changed:\n%s", d)
		}
		return
	}
	for name, content := range want.Files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != content {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range want.Gone {
		if _, err := os.Lstat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, pair := range [][2][]string{{r.Summary.Added, want.Summary.Added}, {r.Summary.Modified, want.Summary.Modified}, {r.Summary.Deleted, want.Summary.Deleted}} {
		if pair[1] != nil && !slices.Equal(pair[0], pair[1]) {
			t.Errorf("summary %q, want %q", pair[0], pair[1])
		}
	}
	if got := after["outside/kept"]; got != before["outside/kept"] {
		t.Errorf("outside: %q", got)
	}
}
