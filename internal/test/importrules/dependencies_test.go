package importrules

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/mod/modfile"
)

// Every direct dependency has its line in the list, under what it is for.
func TestDependencies(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(top, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", b, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(filepath.Join(top, "docs", "explain", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllSubmatch(list, -1) {
		told[string(m[1])]++
	}
	want := map[string]int{}
	for _, r := range mod.Require {
		if !r.Indirect {
			want[r.Mod.Path] = 1
		}
	}
	if !maps.Equal(told, want) {
		for path := range want {
			if told[path] != 1 {
				t.Errorf("%s is in docs/explain/dependencies.md %d times", path, told[path])
			}
			delete(told, path)
		}
		for path := range told {
			t.Errorf("docs/explain/dependencies.md has %s, which go.mod has not", path)
		}
	}
}
