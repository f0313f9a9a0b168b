// Package wardenbintest builds corral-warden for the tests of other packages.
//
// The build runs once for each test binary; the result is kept in memory and
// written anew for every test that asks, into a directory that is gone when
// the test ends. So no test leaves a file behind, and none depends on which
// test ran first. It is always built from the sources, never the embedded
// binary, which may be older than they are.
package wardenbintest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/warden/wardenbin"
)

const pkg = "github.com/corral-exec/corral/cmd/corral-warden"

// start is where the test binary was started: its package's directory, from
// which the go command finds the module, also after a test changed directory.
var start, startErr = os.Getwd()

var built struct {
	sync.Mutex
	data []byte
	err  error
}

// content is the warden, built on the first call, in dir.
func content(dir string) ([]byte, error) {
	built.Lock()
	defer built.Unlock()
	if built.data == nil && built.err == nil {
		built.data, built.err = build(filepath.Join(dir, "corral-warden-build"))
	}
	return built.data, built.err
}

func build(out string) ([]byte, error) {
	if startErr != nil {
		return nil, startErr
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, pkg)
	cmd.Dir = start
	// GOTMPDIR: what go leaves when this process is killed goes with the directory.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=", "GOTMPDIR="+filepath.Dir(out))
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot build %s: %w\n%s", pkg, err, text)
	}
	defer os.Remove(out)
	return os.ReadFile(out)
}

// Build returns the path of a warden built from the sources for this machine.
// The file is removed when t ends.
func Build(t testing.TB) string {
	t.Helper()
	path, err := BuildIn(testdir.New(t))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// BuildIn is Build for TestMain, which has no t: the caller owns dir.
func BuildIn(dir string) (string, error) {
	data, err := content(dir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "corral-warden")
	return path, wardenbin.WriteExecutable(path, data)
}
