//go:build unix

package daemon

import (
	"os"
	"path/filepath"
	"testing"
)

// What a call that was killed left behind goes, and nothing else.
func TestSweepTempDirs(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	elsewhere := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(elsewhere, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mine, err := newTempDir()
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(tmp, gatewayPrefix+"left")
	link, file, other := filepath.Join(tmp, gatewayPrefix+"link"), filepath.Join(tmp, gatewayPrefix+"file"), filepath.Join(tmp, "corral-once-1")
	for _, dir := range []string{filepath.Join(left, "logs"), other} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{filepath.Join(left, "inner"), link} {
		if err := os.Symlink(filepath.Dir(elsewhere), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sweepTempDirs()
	for _, name := range []string{mine.path, link, file, other, elsewhere} {
		if _, err := os.Lstat(name); err != nil {
			t.Errorf("it is gone: %v", err)
		}
	}
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Errorf("%s was left: %v", left, err)
	}
	if err := mine.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(mine.path); !os.IsNotExist(err) {
		t.Errorf("%s was left: %v", mine.path, err)
	}
}
