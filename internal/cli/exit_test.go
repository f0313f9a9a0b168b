package cli

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/words"
)

func TestExitCode(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{&app.ExitError{Code: 3}, 3},
		{fmt.Errorf("x: %w", &app.ExitError{Code: 124, Text: "t"}), 124},
		{corral.Errorf(corral.ErrInvalid, "", "x"), 2},
		{corral.ErrDenied, 125}, {corral.ErrUnavailable, 125}, {corral.ErrLost, 125}, {corral.ErrDir, 125}, {errors.New("x"), 125},
		{foreground.Interruption{Signal: corral.SIGINT}, 130}, {foreground.Interruption{Signal: corral.SIGTERM}, 143},
		{fmt.Errorf("cannot write: %w", syscall.EPIPE), 141},
	} {
		if got := app.ExitCode(tc.err); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.err, got, tc.want)
		}
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "a\nb\r\nc\n": "a; b; c", "\x1b[31mred\x1b[0m\x07": "red", "": "",
	} {
		if got := words.OneLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
