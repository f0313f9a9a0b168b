//go:build unix

package files_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
)

// What is copied is what was named, also if the name of a directory ends with a newline,
// which shells cut off.
func TestCopyFromNewline(t *testing.T) {
	dir := testdir.New(t)
	sh(t, dir, `mkdir a 'a
'; echo wrong >a/f; echo right >'a
/f'`)
	var b bytes.Buffer
	if _, err := (files.Commands{Exec: newHost(t), Root: dir}).Download(t.Context(), "a\n/f", &b, files.Limits{}); err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(&b)
	h, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || h.Name != "f" || string(text) != "right\n" {
		t.Errorf("%s: %q, %v", h.Name, text, err)
	}
}

// An empty file in a workspace can be called as the workspace is.
func TestCopyOfWorkspaceWithItsName(t *testing.T) {
	dir := testdir.New(t)
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(dir)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := (files.Commands{Exec: newHost(t), Root: dir}).Download(t.Context(), ".", io.Discard, files.Limits{})
	if err != nil || got.Entries != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}
