//go:build e2e

package sandbox_test

import (
	"os"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox"
)

// A workspace of root's has a warning, which says whom to give it to. Given to that user, or to
// another, it can be written to by the next command, without a warning.
func TestWorkspaceIsGiven(t *testing.T) {
	for _, uid := range []int{65534, 4321} {
		b := newBench(t)
		b.cfg.Workspace.Dir, b.cfg.Workspace.Access = testdir.New(t), sandbox.AccessReadWrite
		if err := os.Chmod(b.cfg.Workspace.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		e := b.open(nil)
		write := func(code, warnings int) {
			t.Helper()
			p, err := e.Start(t.Context(), corral.Command{Shell: "touch new || exit 1"})
			if err != nil {
				t.Fatal(err)
			}
			ended(t, p, code)
			if got := p.Info().Warnings; len(got) != warnings {
				t.Errorf("%d: %q", uid, got)
			}
		}
		write(1, 1)
		if err := os.Chown(b.cfg.Workspace.Dir, uid, uid); err != nil {
			t.Fatal(err)
		}
		if uid == 65534 {
			write(0, 0)
		} else {
			write(0, 1) // that the container is new
		}
		write(0, 0)
	}
}
