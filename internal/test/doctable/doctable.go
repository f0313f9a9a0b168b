// Package doctable keeps the tables of documents that tests write: a document
// says what the code does, and a test fails where it does not any more.
package doctable

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A Table is a part of a file, between two marks. The first one says how it is
// written anew.
type Table struct{ File, Begin, End string }

// Check demands that the part is text; with update it is written there. It
// returns the whole file.
func (tb Table) Check(t testing.TB, text string, update bool) string {
	t.Helper()
	raw, err := os.ReadFile(tb.File)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), tb.Begin)
	old, after, ok2 := strings.Cut(rest, tb.End)
	if !ok || !ok2 {
		t.Fatalf("%s has lost the marks around its table", tb.File)
	}
	if old == text {
		return string(raw)
	}
	if !update {
		t.Fatalf("the table in %s is out of date; write it anew, as its mark says: %s(-table +file)\n%s", tb.File, tb.Begin, cmp.Diff(text, old))
	}
	whole := before + tb.Begin + text + tb.End + after
	if err := os.WriteFile(tb.File, []byte(whole), 0o644); err != nil {
		t.Fatal(err)
	}
	return whole
}
