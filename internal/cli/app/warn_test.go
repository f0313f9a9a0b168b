package app

import (
	"bytes"
	"slices"
	"testing"

	"github.com/corral-exec/corral"
)

// A notice is one line for people, and in a result a field and no warning.
func TestWarnAll(t *testing.T) {
	info := corral.Info{Notice: "the sandbox is off; 2 variables left out: A, B", Warnings: []string{"C was left out."}}
	var errs bytes.Buffer
	a := &App{Stderr: &errs}
	a.WarnAll(info)
	if want := "warning: " + info.Notice + "\nwarning: C was left out.\n"; errs.String() != want {
		t.Errorf("%q", errs.String())
	}
	var kept []string
	a.Kept = &kept
	a.WarnAll(info)
	if !slices.Equal(kept, info.Warnings) {
		t.Errorf("%q", kept)
	}
}
