package wardenexec

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// Where a command was to run answers: nobody is told to start an engine. A place that
// is full is said to be.
func TestUnavailableHint(t *testing.T) {
	for text, want := range map[string]string{
		"cannot make a process for true: " + unix.EAGAIN.Error(): "sandbox.pids",
		"cannot make a process for true: " + unix.ENOMEM.Error(): "sandbox.memory",
		"cannot open a terminal: " + unix.EMFILE.Error():         "files",
		"the warden is closing":                                  "try again",
	} {
		err := asError(answer{m: &wire.Message{Type: wire.Error, Code: wire.CodeUnavailable, Text: text}})
		if hint := corral.Hint(err); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(hint, want) || strings.Contains(hint, "engine") {
			t.Errorf("%s: %v, hint %q", text, err, hint)
		}
	}
	if hint := corral.Hint(asError(answer{m: &wire.Message{Type: wire.Error, Code: wire.CodeNotFound, Text: "no"}})); hint != "" {
		t.Errorf("%q", hint)
	}
}
