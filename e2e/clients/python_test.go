//go:build e2e

package clients_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long the tests of a client may take on a machine under load.
const patience = 5 * time.Minute

// The tests of the package corral run against its wheel, not against its sources.
func TestPython(t *testing.T) {
	enginetest.New(t) // with the image
	source, err := filepath.Abs("../../clients/python")
	if err != nil {
		t.Fatal(err)
	}
	dir := testdir.New(t)
	program := built.Program(t, "cmd/corral")
	wheels := filepath.Join(dir, "wheels")
	made := strings.Fields(run(t, dir, nil, "python3", filepath.Join(source, "build_backend.py"), wheels))
	if len(made) != 2 || !strings.HasSuffix(made[0], "-py3-none-any.whl") {
		t.Fatalf("it made %q", made)
	}
	if err := os.CopyFS(filepath.Join(dir, "tests"), os.DirFS(filepath.Join(source, "tests"))); err != nil {
		t.Fatal(err)
	}
	env := []string{"PYTHONPATH=" + made[0], "PYTHONDONTWRITEBYTECODE=1", "CORRAL_BIN=" + program, "CORRAL_TEST_IMAGE=" + images.Busybox}
	if at := run(t, dir, env, "python3", "-c", "import corral; print(corral.__file__)"); !strings.HasPrefix(at, made[0]) {
		t.Fatalf("the package is from %s", at)
	}
	out := run(t, dir, env, "python3", "-W", "error", "-m", "unittest", "-v")
	t.Log(out)
	passed(t, out, func(name string) string {
		return `(?m)^test_scenario_` + strings.ReplaceAll(name, "-", "_") + ` \(.*\) \.\.\. ok$`
	})
	published := []string{"MYPYPATH=" + filepath.Join(dir, "tests", "published")}
	t.Log(run(t, dir, published, "mypy", "--strict", "--python-version", "3.9", "--cache-dir", filepath.Join(dir, "mypy"), filepath.Join(source, "corral")))
}

// passed demands that the output of tests says of each scenario that its test ran, and
// was not skipped.
func passed(t *testing.T, out string, line func(name string) string) {
	t.Helper()
	for _, name := range names(t) {
		if !regexp.MustCompile(line(name)).MatchString(out) {
			t.Errorf("the test of the scenario %s did not run", name)
		}
	}
}

func run(t *testing.T, dir string, env []string, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	if cmd.Env = append(os.Environ(), env...); program != "go" {
		cmd.Dir = dir
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return strings.TrimSpace(string(out))
}
