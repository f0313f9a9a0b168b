package files

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// Whatever an archive is, what is read of it is within the limits, below where
// it is unpacked, and again such an archive.
func FuzzArchive(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "d/f", Size: 3, Mode: 0o4644},
		{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../.."}, {Name: "h", Typeflag: tar.TypeLink, Linkname: "d/f"},
		{Name: strings.Repeat("long/", 60) + "ü", Size: 0}, {Name: "p", Typeflag: tar.TypeFifo},
	} {
		if err := w.WriteHeader(&h); err != nil {
			f.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = w.Write([]byte("abc"))
		}
	}
	_ = w.Close()
	f.Add(b.Bytes(), false)
	f.Add(b.Bytes(), true)
	f.Add(b.Bytes()[:b.Len()-1024], true)
	f.Add([]byte{}, false)
	limits := Limits{Bytes: 1 << 20, Entries: 100, Depth: 10}
	f.Fuzz(func(t *testing.T, data []byte, leaveOut bool) {
		a := newArchive(bytes.NewReader(data), limits)
		a.leaveOut = leaveOut
		var out bytes.Buffer
		w := newWriter(&out, limits)
		_, err := normalise(w, a)
		if err == nil {
			err = w.finish()
		}
		// What a header can say, a header of another archive cannot always.
		if err != nil && !errors.Is(err, corral.ErrInvalid) && !strings.Contains(err.Error(), "into the archive") {
			t.Fatalf("%v", err)
		}
		if a.got.Bytes > limits.Bytes || a.got.Entries > limits.Entries || out.Len() > 4<<20 {
			t.Fatalf("%+v of %d bytes, %d came out", a.got, len(data), out.Len())
		}
		if err != nil {
			return
		}
		again := newArchive(&out, limits)
		for {
			e, err := again.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("what came out cannot be read: %v", err)
			}
			if !filepath.IsLocal(e.name) || e.typ == typeHard && !filepath.IsLocal(e.target) || e.mode > permBits {
				t.Fatalf("%+v came out", e)
			}
		}
		if again.got.Entries != a.got.Entries || again.got.Bytes != a.got.Bytes {
			t.Fatalf("%+v went in, and %+v came out", a.got, again.got)
		}
	})
}

// However links lead, and whatever a path is, what is found is inside.
func FuzzLocate(f *testing.F) {
	f.Add("a", "..", "b", "/workspace/a", "a/b/../c")
	f.Add("a", "/etc", "b", "a", "b/passwd")
	f.Add("l", "l", "m", "../workspace", "l/m")
	f.Add("d/x", "../../..", "y", "d/x", "y/z")
	f.Add("d/x", "../d/./x/..", "d/y", "/workspace/../workspace/d", "d/y/x")
	f.Fuzz(func(t *testing.T, link1, to1, link2, to2, name string) {
		top := testdir.New(t)
		root := filepath.Join(top, "workspace")
		if err := errors.Join(os.MkdirAll(filepath.Join(root, "d/e"), 0o755), os.WriteFile(filepath.Join(root, "d/f"), nil, 0o644), os.WriteFile(filepath.Join(top, "outside"), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		for link, to := range map[string]string{link1: to1, link2: to2} {
			if filepath.IsLocal(link) {
				_ = os.Symlink(to, filepath.Join(root, link)) // what cannot be is not there
			}
		}
		for _, portable := range []bool{false, true} {
			d := Directory{Path: root, Root: "/workspace", portable: portable}
			err := d.do(t.Context(), "find", name, false, func(tr *tree, _, rel string) error {
				for _, follow := range []bool{false, true} {
					p, err := tr.locate(rel, follow)
					if err != nil {
						return err
					}
					s, err := p.lstat(p.base)
					if err == nil && follow && s.typ == TypeLink {
						t.Errorf("%q is a link still", p.name)
					}
					_, gone := p.lstat("outside")
					if inside, err := p.lstat("workspace"); gone == nil || err == nil && inside.typ == TypeDir {
						t.Errorf("%q is outside", name)
					}
					if err := p.Close(); err != nil {
						t.Error(err)
					}
				}
				return nil
			})
			if err != nil && !errors.Is(err, corral.ErrInvalid) && !errors.Is(err, corral.ErrDenied) && !errors.Is(err, corral.ErrNotFound) {
				t.Errorf("portable %v: %v", portable, err)
			}
		}
	})
}
