package importrules

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/corral-exec/corral"
	top    = "../.." // of the repository, from here
)

// A listed package is what go list -json prints of one.
type listed struct {
	Dir, ImportPath, Name string

	GoFiles, CgoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports, Deps                     []string

	Error *struct{ Err string }
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json", "./...")
	cmd.Dir = top
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%v: %v: %s", cmd, err, exit.Stderr)
		}
		t.Fatalf("%v: %v", cmd, err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// rel names a package of this repository by its directory.
func rel(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// violations are complete sentences.
func violations(all []listed) []string {
	var bad []string
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	for _, p := range all {
		name, ok := rel(p.ImportPath)
		if !ok {
			say("%s is not of this module.", p.ImportPath)
			continue
		}
		if p.Error != nil {
			say("%s cannot be listed: %s.", name, p.Error.Err)
		}
		r, ok := rules[name]
		if !ok {
			say("%s is in no layer; add it to rules_test.go.", name)
			continue
		}
		for _, path := range p.Imports {
			if other, ours := rel(path); ours && !slices.Contains(r.imports, other) {
				say("%s may not import %s.", name, other)
			}
		}
		allowed := slices.Concat(r.imports, r.tests, testOnly, []string{name})
		for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
			if other, ours := rel(path); ours && !slices.Contains(allowed, other) {
				say("The tests of %s may not import %s.", name, other)
			}
		}
		for _, dep := range p.Deps {
			for _, prefix := range unlinked[name] {
				if dep == prefix || strings.HasPrefix(dep, strings.TrimSuffix(prefix, "/")+"/") {
					say("%s must not depend on %s.", name, dep)
				}
			}
			if _, ours := rel(dep); !ours && slices.Contains(standardOnly, name) && thirdParty(dep) {
				say("%s must not depend on %s, which is not of the standard library.", name, dep)
			}
		}
	}
	return bad
}

// thirdParty goes by the dot in a host's name; the standard library's own
// copies are under vendor/.
func thirdParty(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".")
}

func TestImports(t *testing.T) {
	for _, v := range violations(list(t)) {
		t.Error(v)
	}
}

// The rules themselves hold: nobody may import a command, or, outside of
// tests, what is for tests.
func TestRules(t *testing.T) {
	for name, r := range rules {
		for _, other := range slices.Concat(r.imports, r.tests, testOnly) {
			if _, ok := rules[other]; !ok {
				t.Errorf("%s may import %s, which is in no layer", name, other)
			}
			if strings.HasPrefix(other, "cmd/") {
				t.Errorf("%s may import the command %s", name, other)
			}
		}
		for _, other := range r.imports {
			if slices.Contains(testOnly, other) && !slices.Contains(testOnly, name) && name != "internal/exectest/testprog" {
				t.Errorf("%s may import %s, which is for tests", name, other)
			}
		}
	}
}

func TestViolationsAreFound(t *testing.T) {
	for _, tc := range []struct {
		p    listed
		want string // empty: allowed
	}{
		{listed{ImportPath: module, Imports: []string{"fmt"}}, ""},
		{listed{ImportPath: module, Imports: []string{module + "/pathenv"}}, ". may not import pathenv."},
		{listed{ImportPath: module, XTestImports: []string{module, module + "/internal/fakeexec"}}, ""},
		{listed{ImportPath: module + "/hostexec", Imports: []string{module + "/internal/fakeexec"}}, "hostexec may not import internal/fakeexec."},
		{listed{ImportPath: module + "/hostexec", Imports: []string{module + "/sandbox"}}, "hostexec may not import sandbox."},
		{listed{ImportPath: module + "/pathenv", TestImports: []string{module + "/hostexec"}}, "The tests of pathenv may not import hostexec."},
		{listed{ImportPath: module + "/e2e", XTestImports: []string{module + "/cmd/corral"}}, "The tests of e2e may not import cmd/corral."},
		{listed{ImportPath: module + "/shiny"}, "shiny is in no layer; add it to rules_test.go."},
		{listed{ImportPath: module + "/internal/warden", Deps: []string{"net/http/internal"}}, "internal/warden must not depend on net/http/internal."},
		{listed{ImportPath: module + "/internal/warden", Deps: []string{"net", "fmt", "golang.org/x/sys/unix"}}, ""},
		{listed{ImportPath: module + "/cmd/corral-warden", Deps: []string{"github.com/docker/docker/client"}}, "cmd/corral-warden must not depend on github.com/docker/docker/client."},
		{listed{ImportPath: module, Deps: []string{"vendor/golang.org/x/text", "golang.org/x/sys/unix"}}, ". must not depend on golang.org/x/sys/unix, which is not of the standard library."},
		{listed{ImportPath: module + "/images", Error: &struct{ Err string }{"no Go files"}}, "images cannot be listed: no Go files."},
		{listed{ImportPath: "example.org/x"}, "example.org/x is not of this module."},
	} {
		got := violations([]listed{tc.p})
		if want := slices.DeleteFunc([]string{tc.want}, func(s string) bool { return s == "" }); !slices.Equal(got, want) {
			t.Errorf("%+v: %q, want %q", tc.p, got, want)
		}
	}
}
