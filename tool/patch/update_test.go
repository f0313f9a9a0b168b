package patch

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

// updated applies the chunks of an update of the file f to its content.
func updated(t testing.TB, content string, lines ...string) (string, error) {
	t.Helper()
	p, err := Parse(patchOf(append([]string{"*** Update File: f"}, lines...)...))
	if err != nil {
		t.Fatal(err)
	}
	got, err := update(p.Hunks[0], []byte(content))
	return string(got), err
}

func TestUpdate(t *testing.T) {
	lines := func(l ...string) []string { return l }
	for name, c := range map[string]struct {
		content string
		patch   []string
		want    string
	}{
		"replace":                      {"a\nb\nc\n", lines("@@", " a", "-b", "+B", " c"), "a\nB\nc\n"},
		"the first of two":             {"x\ny\nx\n", lines("@@", "-x", "+z"), "z\ny\nx\n"},
		"the one after the context":    {"f1\nx\nf2\nx\n", lines("@@ f2", "-x", "+z"), "f1\nx\nf2\nz\n"},
		"after several contexts":       {"A\nf\nx\nB\nf\nx\n", lines("@@ B", "@@ f", "-x", "+z"), "A\nf\nx\nB\nf\nz\n"},
		"the last of two, at the end":  {"x\ny\nx\n", lines("@@", "-x", "+z", "*** End of File"), "x\ny\nz\n"},
		"chunks go on":                 {"x\nx\nx\n", lines("@@", "-x", "+1", "@@", "-x", "+2"), "1\n2\nx\n"},
		"all lines":                    {"a\nb\n", lines("@@", "-a", "-b"), ""},
		"insertion at the end":         {"a\n", lines("@@", "+b"), "a\nb\n"},
		"insertion after a context":    {"a\nb\nc\n", lines("@@ a", "+x"), "a\nx\nb\nc\n"},
		"insertion, then a change":     {"a\nb\n", lines("@@", "+c", "@@", "-a", "+A"), "A\nb\nc\n"},
		"insertion into nothing":       {"", lines("@@", "+a"), "a\n"},
		"no newline at the end":        {"a\nb", lines("@@", "-b", "+c"), "a\nc\n"},
		"no newline at the kept end":   {"a\nb", lines("@@", "-a", "+A"), "A\nb\n"},
		"blank lines at the end stay":  {"a\n\n\n", lines("@@", "-a", "+A"), "A\n\n\n"},
		"line ends of Windows":         {"a\r\nb\r\nc\r\n", lines("@@", "-b", "+B", "+B2"), "a\r\nB\r\nB2\r\nc\r\n"},
		"mixed line ends":              {"a\nb\r\nc\nd\r\n", lines("@@", " b", "-c", "+C", "+C2"), "a\nb\r\nC\nC2\nd\r\n"},
		"insertion with CRLF":          {"a\r\n", lines("@@", "+b"), "a\r\nb\r\n"},
		"CRLF without the last":        {"a\r\nb", lines("@@", "-b", "+c"), "a\r\nc\r\n"},
		"a byte order mark":            {"\ufeffa\nb\n", lines("@@", "-a", "+A"), "\ufeffA\nb\n"},
		"Latin-1":                      {"caf\xe9\nb\n", lines("@@", "-b", "+B"), "caf\xe9\nB\n"},
		"space at the end":             {"a  \nb\n", lines("@@", " a", "-b", "+B"), "a  \nB\n"},
		"space in front":               {"\ta\n\tb\n", lines("@@", " a", "-b", "+\tB"), "\ta\n\tB\n"},
		"exact beats loose":            {"\tx\nx\n", lines("@@", "-x", "+y"), "\tx\ny\n"},
		"dashes, quotes and spaces":    {"a – “b”\u00a0‘c’\nd\n", lines("@@", ` a - "b" 'c'`, "-d", "+D"), "a – “b”\u00a0‘c’\nD\n"},
		"a blank line after the chunk": {"a\nb\n", lines("@@", "-a", "+A", " b", ""), "A\nb\n"},
		"a blank line that is there":   {"a\n\nb\n", lines("@@", "-a", "+A", "", " b"), "A\n\nb\n"},
		"kept alone":                   {"a\nb\n", lines("@@", " a"), "a\nb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := updated(t, c.content, c.patch...); err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestNearest(t *testing.T) {
	content := "package main\n\nfunc main() {\n\tprintln(\"hello\")\n}\n\nfunc other() {\n\treturn\n}\n"
	for name, c := range map[string]struct {
		patch []string
		want  MatchError
		text  string
	}{
		"a line that differs": {
			[]string{"@@", " func main() {", "-\tprintln(\"hallo\")", "+\tx()"},
			MatchError{Path: "f", Chunk: 1, Line: 3, Expected: []string{"func main() {", "\tprintln(\"hallo\")"},
				Nearest: &Nearest{Line: 3, Diff: []string{" func main() {", "-\tprintln(\"hallo\")", "+\tprintln(\"hello\")"}}},
			"Failed to find expected lines in f: chunk 1, at line 3 of the patch; the nearest is at line 3 of the file",
		},
		"only like it": {
			[]string{"@@", "-func othre() {", "+x"},
			MatchError{Path: "f", Chunk: 1, Line: 3, Expected: []string{"func othre() {"},
				Nearest: &Nearest{Line: 7, Diff: []string{"-func othre() {", "+func other() {"}}},
			"Failed to find expected lines in f: chunk 1, at line 3 of the patch; the nearest is at line 7 of the file",
		},
		"a context": {
			[]string{"@@ func mian() {", "+x"},
			MatchError{Path: "f", Chunk: 1, Line: 3, Context: true, Expected: []string{"func mian() {"},
				Nearest: &Nearest{Line: 3, Diff: []string{"-func mian() {", "+func main() {"}}},
			"Failed to find context 'func mian() {' in f: chunk 1, at line 3 of the patch; the nearest is at line 3 of the file",
		},
		"before": {
			[]string{"@@", "-func other() {", "+x", "@@", "-func main() {", "+y"},
			MatchError{Path: "f", Chunk: 2, Line: 6, Expected: []string{"func main() {"}, Nearest: &Nearest{Line: 3, Before: true, Diff: []string{}}},
			"Failed to find expected lines in f: chunk 2, at line 6 of the patch; it is at line 3 of the file, before where the chunk can apply",
		},
		"nothing like it": {
			[]string{"@@", "-zzzzzzzz", "+x"},
			MatchError{Path: "f", Chunk: 1, Line: 3, Expected: []string{"zzzzzzzz"}},
			"Failed to find expected lines in f: chunk 1, at line 3 of the patch; nothing in the file is like it",
		},
		"past the end": {
			[]string{"@@", " \treturn", " }", " more"},
			MatchError{Path: "f", Chunk: 1, Line: 3, Expected: []string{"\treturn", "}", "more"},
				Nearest: &Nearest{Line: 8, Diff: []string{" \treturn", " }", "-more"}}},
			"Failed to find expected lines in f: chunk 1, at line 3 of the patch; the nearest is at line 8 of the file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := updated(t, content, c.patch...)
			var match *MatchError
			if !errors.As(err, &match) || !errors.Is(err, corral.ErrInvalid) {
				t.Fatal(err)
			}
			if d := cmp.Diff(&c.want, match); d != "" || err.Error() != c.text {
				t.Errorf("%v\n%s", err, d)
			}
		})
	}
}

func TestBinary(t *testing.T) {
	if _, err := updated(t, "a\x00b\n", "@@", "-a", "+b"); err == nil || !strings.Contains(err.Error(), "Failed to update f: it is a binary file") {
		t.Error(err)
	}
}

// Hostile files and patches do not take long.
func TestHostileText(t *testing.T) {
	content := strings.Repeat("a\n", 400_000)
	chunk := strings.Repeat(" a\n", 100_000) + "-b"
	if _, err := updated(t, content, "@@", chunk); err == nil {
		t.Error("it was found")
	}
	for name, tc := range map[string]struct{ content, chunks string }{
		"empty lines behind a chunk": {content, "@@\n-nothing" + strings.Repeat("\n", 2_000_000)},
		"loose matches":              {strings.Repeat("a\n", 1_000_000) + strings.Repeat(" b\n", 10_000), strings.Repeat("@@\n-b\n+c\n", 9_000) + "@@\n-a"},
		"many lines":                 {strings.Repeat("\n", 2_000_000), "@@\n-nothing"},
	} {
		began := time.Now()
		_, err := updated(t, tc.content, strings.Split(tc.chunks, "\n")...)
		if !errors.Is(err, corral.ErrInvalid) || len(err.Error()) > 1000 {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

// The only failure of an update is that lines are not found, and it leaves all other lines
// unchanged.
func FuzzUpdate(f *testing.F) {
	f.Add("a\nb\nc\n", "@@\n a\n-b\n+B")
	f.Add("a\r\nb", "@@ a\n+x\n*** End of File")
	f.Add("\ufeffa\n\n", "@@\n-a\n+\u2013\n\n@@\n+z")
	f.Fuzz(func(t *testing.T, content, chunks string) {
		p, err := Parse(patchOf("*** Update File: f", chunks))
		if err != nil || len(p.Hunks) != 1 {
			return
		}
		got, err := update(p.Hunks[0], []byte(content))
		if err != nil {
			if !errors.Is(err, corral.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		inserted, removed := 0, 0
		for _, c := range p.Hunks[0].Chunks {
			for _, l := range c.Lines {
				switch l.Kind {
				case Insert:
					inserted++
				case Remove:
					removed++
				}
			}
		}
		before, _ := splitLines([]byte(content))
		after, _ := splitLines(got)
		if len(after) != len(before)+inserted-removed {
			t.Errorf("%d lines of %d, with %d inserted and %d removed: %q", len(after), len(before), inserted, removed, got)
		}
		if len(got) > 0 && string(got) != bom && got[len(got)-1] != '\n' {
			t.Errorf("%q does not end with a newline", got)
		}
	})
}
