package inspect

import (
	"context"
	"errors"
	"testing"

	"github.com/corral-exec/corral/internal/daemon"
)

// An engine that hangs does not take the time of those that are tried after it: each has a
// limit of its own.
func TestSearchForAnEngine(t *testing.T) {
	var m Machine
	none := errors.New("none answers")
	m.Backends.Engine = func(ctx context.Context, _ string) (daemon.Engine, error) {
		if _, limited := ctx.Deadline(); limited {
			t.Error("all engines together have a limit")
		}
		return nil, none
	}
	var e SandboxEngine
	if eng, _ := m.askEngine(t.Context(), &e); eng != nil || e.Error != none.Error() {
		t.Errorf("%v, %+v", eng, e)
	}
}
