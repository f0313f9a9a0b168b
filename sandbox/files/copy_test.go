//go:build unix

package files_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
)

// Copies go where cp -R has them go.
func TestCopyAsCp(t *testing.T) {
	const before = `mkdir -p a/d dst/old; echo f > a/f; echo g > a/d/g; ln -s f a/l; chmod 750 a/d; ln a/f a/hard; echo file > file; ln -s dst tolink; mkdir ro; echo h > ro/h; chmod 550 ro`
	for _, c := range [][2]string{
		{"a/f", "new"}, {"a/f", "dst"}, {"a/f", "dst/"}, {"a/f", "dst/n"}, {"a/f", "file"}, {"a/f", "tolink"},
		{"a", "new"}, {"a", "dst"}, {"a", "tolink"}, {"a/.", "dst"}, {"a/.", "new"}, {"a/l", "new"}, {"a", "dst/old"},
		{"ro", "new"}, {"ro", "new/"}, {"ro/.", "new"}, {"ro", "dst"},
	} {
		t.Run(c[0]+" to "+c[1], func(t *testing.T) {
			ours, theirs := testdir.New(t), testdir.New(t)
			sh(t, ours, before)
			sh(t, theirs, before)
			sh(t, theirs, "cp -R -P "+c[0]+" "+c[1])
			f := files.Directory{Path: ours, Root: "/"}
			if _, err := files.Copy(t.Context(), f, "/"+c[0], f, "/"+c[1], files.Limits{}); err != nil {
				t.Fatal(err)
			}
			const show = `find . -type f -printf '%p %m ' -exec cat {} \; -o -type d -printf '%p/ %m\n' -o -printf '%p -> %l\n' | sort`
			if got, want := sh(t, ours, show), sh(t, theirs, show); got != want {
				t.Errorf("there is\n%s\nand cp makes\n%s", got, want)
			}
			for _, dir := range []string{ours, theirs} { // to be removed
				sh(t, dir, "chmod -R u+w .")
			}
		})
	}
}

func TestCopyRefused(t *testing.T) {
	dir := testdir.New(t)
	sh(t, dir, `mkdir a; echo > f`)
	f := files.Directory{Path: dir, Root: "/"}
	for _, c := range []struct {
		src, dst string
		kind     error
	}{
		{"/none", "/x", corral.ErrNotFound}, {"/a", "/f", corral.ErrConflict}, {"/f", "/none/x", corral.ErrNotFound},
		{"/f", "/none/", corral.ErrNotFound}, {"/f/.", "/a", corral.ErrInvalid}, {"/a", "/none/x", corral.ErrNotFound},
	} {
		if _, err := files.Copy(t.Context(), f, c.src, f, c.dst, files.Limits{}); !errors.Is(err, c.kind) {
			t.Errorf("%s to %s: %v", c.src, c.dst, err)
		}
	}
	if _, err := files.Copy(t.Context(), f, "/f", files.Directory{Path: dir, Root: "/", ReadOnly: true}, "/g", files.Limits{}); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "big"), make([]byte, 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Copy(t.Context(), f, "/a", f, "/b", files.Limits{Bytes: 999}); !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), "999") {
		t.Errorf("%v", err)
	}
}

func sh(t *testing.T, dir, text string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", text)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", text, err, out)
	}
	return string(out)
}
