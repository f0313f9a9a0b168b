package built_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/internal/test/built"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prog = "internal/test/exectest/testprog"

// A program is linked once for all tests, and each may have a copy of its own.
func TestBuilt(t *testing.T) {
	shared := built.Program(t, prog)
	before, err := os.Stat(shared)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("/")
	if again := built.Program(t, prog); again != shared {
		t.Errorf("%s, then %s", shared, again)
	}
	file := filepath.Join(t.TempDir(), "mine")
	built.Copy(t, prog, file)
	if out, err := exec.CommandContext(t.Context(), file, "env").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if after, err := os.Stat(shared); err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("it was built again: %v", err)
	}
	if _, err := built.File("internal/test/built/nothing"); err == nil {
		t.Error("a package that does not exist was built")
	}
}
