//go:build unix

package patch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/corral-exec/corral"
)

// Every workspace satisfies the contract of its interface.
func TestWorkspaces(t *testing.T) {
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"a": "a\n", "b": "b\n", "d/x": "x\n", "file": "-> a", "dir": "-> d", ".corral-patch-1/old-0": "", "sub/.corral-patch-2/x": ""})
			if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o640); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(filepath.Join(dir, "b"), filepath.Join(dir, "b2")); err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			ws, err := target(t, dir).open(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := ws.close(); err != nil {
					t.Error(err)
				}
			}()
			before := snapshot(t, dir)

			stats, err := ws.stat(ctx, ".", "a", "b", "b2", "d", "file", "dir", "fifo", "none", "none/below")
			var kinds []kind
			for _, s := range stats {
				kinds = append(kinds, s.kind)
			}
			if want := []kind{kindDir, kindFile, kindFile, kindFile, kindDir, kindLink, kindLink, kindOther, kindAbsent, kindAbsent}; err != nil || !slices.Equal(kinds, want) {
				t.Fatalf("%v, %v", kinds, err)
			}
			if a, b, b2 := stats[1], stats[2], stats[3]; a.perm != 0o644 || a.size != 2 || a.links != 1 || !a.ours || a.made || a.owner.uid != os.Geteuid() ||
				b.links != 2 || b.id != b2.id || a.id == b.id || stats[7].perm != 0o640 {
				t.Errorf("%+v", stats)
			}

			read := func(name string, limit int64) error { _, _, err := ws.read(ctx, name, limit); return err }
			for what, c := range map[string]struct{ err, want error }{
				"read nothing":             {read("none", 9), fs.ErrNotExist},
				"read a directory":         {read("d", 9), fs.ErrInvalid},
				"read a link":              {read("file", 9), fs.ErrInvalid},
				"read a FIFO":              {read("fifo", 9), fs.ErrInvalid},
				"read too much":            {read("a", 1), corral.ErrInvalid},
				"read just enough":         {read("a", 2), nil},
				"link to a file":           {ws.link(ctx, "a", "b"), fs.ErrExist},
				"link to a link":           {ws.link(ctx, "a", "file"), fs.ErrExist},
				"link to a linked dir":     {ws.link(ctx, "a", "dir"), fs.ErrExist},
				"link to a directory":      {ws.link(ctx, "a", "d"), fs.ErrExist},
				"link nothing":             {ws.link(ctx, "none", "new"), fs.ErrNotExist},
				"rename nothing":           {ws.rename(ctx, "none", "new"), fs.ErrNotExist},
				"rename to a directory":    {ws.rename(ctx, "a", "d"), fs.ErrExist},
				"make what is there":       {ws.mkdir(ctx, "d", byUmask, anyOwner), errAny},
				"make a file that is":      {ws.create(ctx, "a", []byte("x"), byUmask, anyOwner), errAny},
				"make a file for a link":   {ws.create(ctx, "file", []byte("x"), byUmask, anyOwner), errAny},
				"remove nothing":           {ws.remove(ctx, "none"), fs.ErrNotExist},
				"remove what is not empty": {ws.remove(ctx, "d"), syscall.ENOTEMPTY},
			} {
				if c.want == errAny && c.err != nil {
					continue
				}
				if !errors.Is(c.err, c.want) {
					t.Errorf("%s: %v, want %v", what, c.err, c.want)
				}
			}
			if d := differs(snapshot(t, dir), before); d != "" {
				t.Error(d)
			}

			journals, err := ws.journals(ctx)
			if err != nil || !slices.Equal(journals, []string{".corral-patch-1"}) {
				t.Errorf("%q, %v", journals, err)
			}
			members, err := ws.members(ctx, ".corral-patch-1")
			if err != nil || !slices.Equal(members, []string{"old-0"}) {
				t.Errorf("%q, %v", members, err)
			}

			content := []byte("\x00\xff\r\n" + strings.Repeat("x", 100_000))
			for what, err := range map[string]error{
				"mkdir":          ws.mkdir(ctx, "made", 0o700, anyOwner),
				"create":         ws.create(ctx, "made.x", content, 0o751, anyOwner),
				"create empty":   ws.create(ctx, "-empty", nil, byUmask, anyOwner),
				"rename a link":  ws.rename(ctx, "dir", "renamed"),
				"remove a file":  ws.remove(ctx, "b2"),
				"link":           ws.link(ctx, "a", "a2"),
				"rename over it": ws.rename(ctx, "b", "file"),
			} {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			if stats, err := ws.stat(ctx, "made"); err != nil || !stats[0].made {
				t.Errorf("%+v, %v", stats, err)
			}
			delete(before, "b2")
			delete(before, "b")
			delete(before, "dir")
			before["made"], before["made.x"], before["-empty"] = "drwx------", "-rwxr-x--x\n"+string(content), "-rw-r--r--\n"
			before["renamed"], before["a2"], before["file"] = "Lrwxrwxrwx\nd", "-rw-r--r--\na\n", "-rw-r--r--\nb\n"
			if d := differs(snapshot(t, dir), before); d != "" {
				t.Error(d)
			}
		})
	}
}

var errAny = errors.New("any")

// A workspace that commands may not change is not opened, and a link to one is known by both
// names.
func TestDirectoryOpens(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"real/a": "a\n", "name": "-> real"})
	if _, err := (Directory{Path: dir, As: "/workspace", ReadOnly: true}).open(t.Context()); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("read-only: %v", err)
	}
	if _, err := (Directory{Path: filepath.Join(dir, "none")}).open(t.Context()); !errors.Is(err, corral.ErrDir) {
		t.Errorf("none: %v", err)
	}
	for as, want := range map[string][]string{"": {filepath.Join(dir, "name"), filepath.Join(dir, "real")}, "/workspace": {"/workspace"}} {
		w, err := Directory{Path: filepath.Join(dir, "name"), As: as}.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := w.roots(); !slices.Equal(got, want) {
			t.Errorf("as %q: %q, want %q", as, got, want)
		}
		if _, _, err := w.read(t.Context(), "none", 10); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		for limit, large := range map[int64]bool{1: true, 2: false} {
			if b, _, err := w.read(t.Context(), "a", limit); (err != nil) != large || !large && string(b) != "a\n" {
				t.Errorf("at most %d bytes: %q, %v", limit, b, err)
			}
		}
		if stats, err := w.stat(t.Context(), "a", "a/below", "none"); err != nil || stats[0].kind != kindFile || stats[1].kind != kindAbsent || stats[2].kind != kindAbsent {
			t.Errorf("%+v, %v", stats, err)
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}
}
