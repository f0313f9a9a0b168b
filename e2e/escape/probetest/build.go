// Package probetest builds the program that tries to get out of sandboxes, for
// tests alone.
package probetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Build builds the static program from the sources, as file.
func Build(t testing.TB, file string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, "github.com/corral-exec/corral/cmd/corral-escape")
	// GOTMPDIR: what go leaves when this process is killed goes with the directory.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOTMPDIR="+filepath.Dir(file))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the probes: %v\n%s", err, out)
	}
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
}
