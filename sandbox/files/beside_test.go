package files_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
)

// What a sandbox sends is written nowhere but where it is unpacked, whatever links come
// before it, in the same archive or an earlier one.
func TestNothingBeside(t *testing.T) {
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}
	}
	file := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 4, Mode: 0o644}
	}
	for what, archives := range map[string][][]tar.Header{
		"a file":              {{link("d/l", "../.."), file("d/l/mine")}},
		"with an earlier one": {{link("d/l", "../..")}, {file("d/l/mine")}},
		"a directory":         {{link("l", ".."), {Typeflag: tar.TypeDir, Name: "l/dir", Mode: 0o755}}},
		"its mode":            {{link("l", ".."), {Typeflag: tar.TypeDir, Name: "l", Mode: 0o100}}},
		"a link":              {{link("l", ".."), link("l/mine", "x")}},
		"a hard link":         {{file("f"), link("l", ".."), {Typeflag: tar.TypeLink, Name: "l/mine", Linkname: "f"}}},
		"through two":         {{link("a", ".."), link("b", "a"), file("b/mine")}},
	} {
		t.Run(what, func(t *testing.T) {
			dir := testdir.New(t)
			if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "out"), 0o700); err != nil {
				t.Fatal(err)
			}
			to, name, err := files.Local(filepath.Join(dir, "out"))
			if err != nil {
				t.Fatal(err)
			}
			for i, headers := range archives {
				var b bytes.Buffer
				w := tar.NewWriter(&b)
				for _, h := range headers {
					if err := w.WriteHeader(&h); err != nil {
						t.Fatal(err)
					}
					if h.Typeflag == tar.TypeReg {
						_, _ = w.Write([]byte("evil"))
					}
				}
				_ = w.Close()
				_, err = to.Upload(t.Context(), name, &b, files.Limits{})
				if last := i == len(archives)-1; last == (err == nil) || last && !strings.Contains(err.Error(), "link") {
					t.Errorf("archive %d: %v", i, err)
				}
			}
			got, err := os.ReadFile(filepath.Join(dir, "mine"))
			names, _ := filepath.Glob(filepath.Join(dir, "*"))
			info, serr := os.Stat(dir)
			if err != nil || serr != nil || string(got) != "mine" || len(names) != 2 || info.Mode().Perm()&0o700 != 0o700 {
				t.Errorf("beside it: %q, %v, %v, %v", got, names, info.Mode(), err)
			}
		})
	}
	// A directory that is no link is filled as before.
	dir := testdir.New(t)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{file("a/b/c"), link("a/b/l", "c"), file("a/b/d")} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			_, _ = w.Write([]byte("good"))
		}
	}
	_ = w.Close()
	to, name, err := files.Local(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.Upload(t.Context(), name, &b, files.Limits{}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "a/b/d")); err != nil || string(got) != "good" {
		t.Errorf("%q, %v", got, err)
	}
}
