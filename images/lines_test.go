package images

import (
	"slices"
	"strings"
	"testing"
)

func TestLineWriter(t *testing.T) {
	for _, tt := range []struct {
		name   string
		writes []string
		lines  []string
		reason string
	}{
		{"nothing", nil, nil, "the script says nothing"},
		{"cut anywhere", []string{"I: Retr", "ieving x\nI: Val", "idating x\n\n"}, []string{"Retrieving x", "Validating x"}, "I: Validating x"},
		{"the first error is the cause", []string{"E: no mirror\nE: giving up\nbye\n"}, []string{"E: no mirror", "E: giving up", "bye"}, "no mirror"},
		{"dpkg's too", []string{"dpkg: error processing package x\nE: Sub-process dpkg returned an error code (1)\n"},
			[]string{"dpkg: error processing package x", "E: Sub-process dpkg returned an error code (1)"}, "processing package x"},
		{"no end of line", []string{"sh: not found"}, []string{"sh: not found"}, "sh: not found"},
		{"redrawn lines", []string{"10%\r20%\r"}, []string{"10%", "20%"}, "20%"},
		{"no password", []string{"E: http://me:secret@host/debian\n"}, []string{"E: http://***@host/debian"}, "http://***@host/debian"},
	} {
		var lines []string
		w := &lineWriter{report: func(s string) { lines = append(lines, s) }}
		for _, s := range tt.writes {
			if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
				t.Errorf("%s: wrote %d, %v", tt.name, n, err)
			}
		}
		if reason := w.reason(); reason != tt.reason || !slices.Equal(lines, tt.lines) {
			t.Errorf("%s: lines %q, reason %q", tt.name, lines, reason)
		}
	}
	w := &lineWriter{report: func(string) {}}
	for range 100 {
		w.Write([]byte(strings.Repeat("x", 1<<10)))
		if len(w.partial) > 16<<10 {
			t.Fatalf("%d bytes of a line are held", len(w.partial))
		}
	}
}
