//go:build e2e

package engines

import (
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/files"
)

// One call, and a command runs; its files are there to be read and written.
func TestOpenSandbox(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", testdir.New(t))
	ctx := t.Context()
	box, err := OpenSandbox(ctx, sandbox.Config{Image: images.Busybox, WardenPath: wardenbintest.Build(t), Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	}()
	f, err := box.Files(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := files.WriteFile(ctx, f, "in/put", []byte("6 * 7")); err != nil {
		t.Fatal(err)
	}
	r, err := runner.Run(ctx, box, corral.Command{Shell: "echo $(($(cat in/put))) >output"}, runner.Options{})
	if err != nil || !r.Exit.Success() {
		t.Fatal(r, err)
	}
	if got, err := files.ReadFile(ctx, f, "output"); err != nil || string(got) != "42\n" {
		t.Errorf("ReadFile = %q, %v", got, err)
	}
}
