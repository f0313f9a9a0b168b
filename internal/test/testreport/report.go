package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// An event is one of go test -json; see go doc test2json.
type event struct {
	Action      string
	Package     string
	Test        string
	Elapsed     float64
	Output      string
	ImportPath  string // of build-output
	FailedBuild string
}

// A report counts events and prints what is worth reading of them.
type report struct {
	out      io.Writer
	writeErr error // the first

	packages map[string]*pkg
	builds   map[string]*strings.Builder // compiler output by import path

	passed, failed, skipped int
	broken                  bool     // something is wrong that is no test
	why                     []string // of what failed, for the end
	took                    []took
}

// took is how long a test ran, in seconds, with its subtests and without the time in
// which it waited for its turn.
type took struct {
	test    string
	seconds float64
}

type pkg struct {
	tests                   map[string]*strings.Builder // output of those that run
	loose                   strings.Builder             // output of no test
	passed, failed, skipped int
}

func newReport(out io.Writer) *report {
	return &report{out: out, packages: map[string]*pkg{}, builds: map[string]*strings.Builder{}}
}

func (r *report) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(r.out, format, args...); err != nil && r.writeErr == nil {
		r.writeErr = err
	}
}

func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				r.printf("%s", line) // the go command's own words
			} else {
				r.event(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read the events: %w", err)
		}
	}
}

func (r *report) event(e event) {
	switch e.Action {
	case "build-output":
		if r.builds[e.ImportPath] == nil {
			r.builds[e.ImportPath] = &strings.Builder{}
		}
		r.builds[e.ImportPath].WriteString(e.Output)
		return
	case "build-fail":
		r.broken = true
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &pkg{tests: map[string]*strings.Builder{}}
		r.packages[e.Package] = p
	}
	if e.Test == "" {
		r.packageEvent(p, e)
		return
	}
	if e.Elapsed >= long && !strings.Contains(e.Test, "/") {
		r.took = append(r.took, took{e.Package + " " + e.Test, e.Elapsed})
	}
	switch e.Action {
	case "run":
		p.tests[e.Test] = &strings.Builder{}
	case "output":
		if t := p.tests[e.Test]; t != nil {
			t.WriteString(e.Output)
		}
	case "pass":
		p.passed++
		delete(p.tests, e.Test)
	case "fail":
		p.failed++
		r.show("FAIL", e, p.tests[e.Test])
		delete(p.tests, e.Test)
	case "skip":
		p.skipped++
		r.show("SKIP", e, p.tests[e.Test])
		delete(p.tests, e.Test)
	}
}

func (r *report) show(what string, e event, output *strings.Builder) {
	r.printf("--- %s %s %s (%.2fs)\n", what, e.Package, e.Test, e.Elapsed)
	text := ""
	if output != nil {
		text = output.String()
	}
	r.printf("%s", text)
	r.why = append(r.why, fmt.Sprintf("%s %s %s", what, e.Package, e.Test))
	said := said.FindAllString(text, -1)
	for _, line := range said[max(0, len(said)-mostSaid):] {
		r.why = append(r.why, "    "+line)
	}
}

// What a test said itself, and how much of it is worth saying once more: the rest
// of its output may be the logs of servers, and fill many pages.
var said = regexp.MustCompile(`(?m)\b\w+_test\.go:\d+: .{0,300}`)

const mostSaid = 12

func (r *report) packageEvent(p *pkg, e event) {
	switch e.Action {
	case "output":
		p.loose.WriteString(e.Output)
		return
	case "pass", "fail", "skip": // the package ended
	default:
		return
	}
	if e.Action == "fail" {
		if b := r.builds[e.FailedBuild]; b != nil {
			r.printf("%s", b)
			delete(r.builds, e.FailedBuild) // once, however many need it
		}
		// What still ran when the test binary died: a panic, a time-out.
		for _, name := range slices.Sorted(maps.Keys(p.tests)) {
			p.failed++
			r.show("FAIL", event{Package: e.Package, Test: name}, p.tests[name])
		}
		if p.failed == 0 {
			r.broken = true
		}
		r.printf("%s", &p.loose)
	}
	if n := p.passed + p.failed + p.skipped; n > 0 || e.Action == "fail" {
		word := "ok  "
		if e.Action == "fail" || p.skipped > 0 {
			word = "FAIL"
		}
		r.printf("%s %s  %d tests  %.1fs\n", word, e.Package, n, e.Elapsed)
	}
	r.passed += p.passed
	r.failed += p.failed
	r.skipped += p.skipped
	delete(r.packages, e.Package)
}

// close prints the totals and tells whether all is well.
func (r *report) close() (ok bool, err error) {
	for name := range r.packages {
		r.printf("FAIL %s did not end\n", name)
		r.broken = true
	}
	r.longest()
	for _, line := range r.why {
		r.printf("%s\n", line)
	}
	ok = !r.broken && r.failed == 0 && r.skipped == 0 && r.passed > 0
	r.printf("%d passed, %d failed", r.passed, r.failed)
	if r.skipped > 0 {
		r.printf(", %d skipped (a skip is a failure)", r.skipped)
	}
	if r.broken {
		r.printf(", and not everything ran (see above)")
	}
	r.printf("\n")
	return ok, r.writeErr
}

// A test is long that takes so many seconds, and worth a look by who wants all of them to
// take less time.
const long = 10

// longest prints the long tests. Side by side, they take less time than their sum.
func (r *report) longest() {
	slices.SortFunc(r.took, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range r.took {
		r.printf("long %5.0f s  %s\n", t.seconds, t.test)
	}
}
