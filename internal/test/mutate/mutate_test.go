package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const sample = "internal/test/mutate/testdata/sample"

// mutate runs the tool on the sample and returns what it prints.
func mutate(t *testing.T, o options, survivors string) (bool, string) {
	t.Helper()
	t.Chdir("../../..")
	o.file = filepath.Join(t.TempDir(), "survivors.txt")
	if err := os.WriteFile(o.file, []byte(survivors), 0o600); err != nil {
		t.Fatal(err)
	}
	o.parallel = 2
	var out strings.Builder
	ok, err := run(t.Context(), &out, o, []string{sample})
	if err != nil {
		t.Fatal(err)
	}
	return ok, out.String()
}

const (
	boundary = sample + "/sample.go:15:38: CONDITIONALS_BOUNDARY > to >=: n > 0\n\tfunc Positive(n int) bool { return n > 0 }\n"
	key      = sample + "/sample.go: CONDITIONALS_BOUNDARY > to >=: n > 0\n\tfunc Positive(n int) bool { return n > 0 }\n"
)

func TestPackage(t *testing.T) {
	ok, out := mutate(t, options{slow: time.Second / 10, min: 60}, "")
	t.Log(out)
	if !ok {
		t.Error("it failed")
	}
	for _, want := range []string{"33 mutants, 30 reached, 25 killed (1 by a time-out), 5 lived: 83.3 %", boundary, sample + ": left out: TestSlow takes 1."} {
		if !strings.Contains(out, want) {
			t.Errorf("not printed: %s", want)
		}
	}
	for _, line := range []string{"19", "26"} { // kills by a time-out, and what is not reached
		if strings.Contains(out, "sample.go:"+line+":") {
			t.Errorf("a survivor in line %s", line)
		}
	}
}

// Survivors of a complete file are explained, and no others.
func TestFailures(t *testing.T) {
	positive := options{slow: time.Second / 10, match: regexp.MustCompile("go:15:")}
	if _, out := mutate(t, positive, key+"\t# Nobody asks for 0.\n"); strings.Contains(out, "BOUNDARY") {
		t.Errorf("an explained survivor is listed:\n%s", out)
	}
	t.Chdir("internal/test/mutate")
	ok, out := mutate(t, options{slow: time.Second / 10, min: 84}, "complete "+sample+"/sample.go\n"+strings.ReplaceAll(key, "n > 0", "n > 1")+"\t# Gone.\n")
	for _, want := range []string{boundary + "\tFAILED: ", "FAILED: no survivor is ", "FAILED: less than 84 % are killed"} {
		if ok || !strings.Contains(out, want) {
			t.Errorf("%v, not printed: %s\n%s", ok, want, out)
		}
	}
}

func TestSurvivorsFile(t *testing.T) {
	for _, bad := range []string{"\tno mutant\n", key, "a: b\n\t# no line\n"} {
		file := filepath.Join(t.TempDir(), "survivors.txt")
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readSurvivors(file); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}
