package corral_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/corral-exec/corral"
)

func TestErrorIsItsKindAndItsCause(t *testing.T) {
	var err error = corral.Errorf(corral.ErrUnavailable, "do this", "cannot open %s: %w", "x", fs.ErrNotExist)
	if err.Error() != "cannot open x: file does not exist" {
		t.Errorf("text %q", err)
	}
	err = fmt.Errorf("around: %w", err)
	if !errors.Is(err, corral.ErrUnavailable) || !errors.Is(err, fs.ErrNotExist) || errors.Is(err, corral.ErrDenied) {
		t.Errorf("%v is of the wrong kind", err)
	}
	if err := corral.Errorf(corral.ErrDenied, "", "no"); err.Err != nil || !errors.Is(err, corral.ErrDenied) {
		t.Errorf("without a cause: %#v", err)
	}
}

func TestHint(t *testing.T) {
	inner := corral.Errorf(corral.ErrUnavailable, "inner", "a")
	silent := corral.Errorf(corral.ErrUnavailable, "", "b")
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"nil", nil, ""},
		{"foreign", fs.ErrNotExist, ""},
		{"its own", inner, "inner"},
		{"wrapped", fmt.Errorf("x: %w", inner), "inner"},
		{"the outermost", corral.Errorf(corral.ErrLost, "outer", "%w", inner), "outer"},
		{"through one without", corral.Errorf(corral.ErrLost, "", "%w", inner), "inner"},
		{"joined behind one without", errors.Join(silent, fs.ErrExist, inner), "inner"},
		{"none anywhere", errors.Join(silent, fs.ErrExist), ""},
	} {
		if got := corral.Hint(tc.err); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestExitString(t *testing.T) {
	for _, tc := range []struct {
		exit    corral.Exit
		want    string
		success bool
	}{
		{corral.Exit{Reason: corral.ReasonExited}, "exit code 0", true},
		{corral.Exit{Code: 3, Reason: corral.ReasonExited}, "exit code 3", false},
		{corral.Exit{Code: -1, Signal: corral.SIGKILL, Reason: corral.ReasonExited}, "signal SIGKILL (9)", false},
		{corral.Exit{Code: -1, Signal: corral.SIGTERM, Reason: corral.ReasonTimeout}, "timed out, signal SIGTERM (15)", false},
		{corral.Exit{Code: 0, Reason: corral.ReasonTimeout}, "timed out, exit code 0", false},
		{corral.Exit{Code: -1, Signal: corral.SIGKILL, Reason: corral.ReasonOOM}, "out of memory, signal SIGKILL (9)", false},
		{corral.Exit{Code: -1, Signal: 37, Reason: corral.ReasonExited}, "signal SIGRTMIN+3 (37)", false},
		{corral.Exit{}, "exit code 0", false}, // no process ended like that
	} {
		if got := tc.exit.String(); got != tc.want {
			t.Errorf("%+v is %q, want %q", tc.exit, got, tc.want)
		}
		if got := tc.exit.Success(); got != tc.success {
			t.Errorf("%+v: success %v", tc.exit, got)
		}
	}
}
