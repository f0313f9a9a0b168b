// Package clients runs the tests of the clients in each language, against the gateway as
// it is now. What all of them are tested with is in scenarios.md.
package clients_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

var scenario = regexp.MustCompile("(?m)^- `([a-z-]+)`: .+$")

// names are those of the scenarios.
func names(t *testing.T) []string {
	t.Helper()
	return found(t, "scenarios.md", scenario)
}

func found(t *testing.T, file string, of *regexp.Regexp) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, match := range of.FindAllStringSubmatch(string(text), -1) {
		all = append(all, match[1])
	}
	slices.Sort(all)
	return all
}

// Each language has a test for each scenario, and no other; the end-to-end tests demand
// that each has passed.
func TestScenariosOfEachLanguage(t *testing.T) {
	want := names(t)
	if len(want) < 25 || len(slices.Compact(slices.Clone(want))) != len(want) {
		t.Fatalf("the scenarios are %q", want)
	}
	for file, of := range map[string]*regexp.Regexp{
		"go_test.go": regexp.MustCompile(`(?m)^\t\{"([a-z-]+)", \w+\},$`),
		"../../clients/python/tests/test_scenarios.py": regexp.MustCompile(`(?m)^    async def test_scenario_([a-z_]+)\(`),
		"../../clients/ts/test/scenarios.test.mjs":     regexp.MustCompile(`(?m)^  test\("scenario ([a-z-]+)",`),
	} {
		got := found(t, file, of)
		for i, name := range got {
			got[i] = regexp.MustCompile("_").ReplaceAllString(name, "-")
		}
		slices.Sort(got)
		for _, name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("%s has no test of the scenario %s", file, name)
			}
		}
		for _, name := range got {
			if !slices.Contains(want, name) {
				t.Errorf("%s has a scenario %s, which scenarios.md does not have", file, name)
			}
		}
	}
}
