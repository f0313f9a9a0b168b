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
	top    = "../../.." // of the repository, from here
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

// layerOf is the layer of a package; nil if it is in none.
func layerOf(name string) *layer {
	for i := range layers {
		for _, p := range layers[i].packages {
			if dir, all := strings.CutSuffix(p, "/..."); name == dir || all && strings.HasPrefix(name, dir+"/") {
				return &layers[i]
			}
		}
	}
	return nil
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
		l := layerOf(name)
		if l == nil {
			say("%s is in no layer; add it to rules_test.go.", name)
			continue
		}
		for _, path := range p.Imports {
			other, ours := rel(path)
			if !ours {
				continue
			}
			if o := layerOf(other); o != nil && o != l && !slices.Contains(l.on, o.name) {
				say("%s (%s) may not import %s (%s).", name, l.name, other, o.name)
			}
		}
		for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
			if other, ours := rel(path); ours && other != name {
				o := layerOf(other)
				if o != nil && o != l && (o.name == "front" || o.name == "outside") && !slices.Contains(l.on, o.name) {
					say("The tests of %s may not import %s (%s).", name, other, o.name)
				}
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

// Every package that is named is there, and is named once.
func TestLayers(t *testing.T) {
	there := map[string]bool{}
	for _, p := range list(t) {
		name, _ := rel(p.ImportPath)
		there[name] = true
	}
	named := map[string]string{}
	for _, l := range layers {
		for _, p := range l.packages {
			dir, all := strings.CutSuffix(p, "/...")
			found := there[dir]
			for name := range there {
				found = found || all && strings.HasPrefix(name, dir+"/")
			}
			if !found {
				t.Errorf("%s is in the layer %s, and there is none", p, l.name)
			}
			if other := named[dir]; other != "" {
				t.Errorf("%s is in the layers %s and %s", dir, other, l.name)
			}
			named[dir] = l.name
		}
		for _, on := range l.on {
			if !slices.ContainsFunc(layers, func(l layer) bool { return l.name == on }) {
				t.Errorf("the layer %s stands on %s, which is none", l.name, on)
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
		{listed{ImportPath: module, Imports: []string{module + "/pathenv"}}, ". (contract) may not import pathenv (ground)."},
		{listed{ImportPath: module, XTestImports: []string{module, module + "/internal/test/fakeexec"}}, ""},
		{listed{ImportPath: module + "/hostexec", Imports: []string{module + "/internal/test/fakeexec"}}, "hostexec (execution) may not import internal/test/fakeexec (tests)."},
		{listed{ImportPath: module + "/hostexec", Imports: []string{module + "/policy"}}, "hostexec (execution) may not import policy (decision)."},
		{listed{ImportPath: module + "/hostexec", Deps: []string{module + "/sandbox"}}, "hostexec must not depend on " + module + "/sandbox."},
		{listed{ImportPath: module + "/policy/guard", Imports: []string{module + "/hostexec"}}, "policy/guard (decision) may not import hostexec (execution)."},
		{listed{ImportPath: module + "/session", Imports: []string{module + "/cmd/corral"}}, "session (service) may not import cmd/corral (front)."},
		{listed{ImportPath: module + "/pathenv", TestImports: []string{module + "/hostexec"}}, ""},
		{listed{ImportPath: module + "/pathenv", TestImports: []string{module + "/internal/cli"}}, "The tests of pathenv may not import internal/cli (front)."},
		{listed{ImportPath: module + "/e2e/cli", TestImports: []string{module + "/internal/cli"}}, ""},
		{listed{ImportPath: module + "/internal/cli", Imports: []string{module + "/e2e/escape/probes"}}, "internal/cli (front) may not import e2e/escape/probes (outside)."},
		{listed{ImportPath: module + "/internal/cli", TestImports: []string{module + "/e2e/escape/probetest"}}, "The tests of internal/cli may not import e2e/escape/probetest (outside)."},
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
