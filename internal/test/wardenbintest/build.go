// Package wardenbintest builds corral-warden for the tests of other packages: always
// from the sources, never the embedded binary, which may be older than they are. Every
// test that asks has a copy of its own, which is gone when the test ends.
package wardenbintest

import (
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/testdir"
)

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
	path := filepath.Join(dir, "corral-warden")
	return path, built.CopyTo("cmd/corral-warden", path)
}
