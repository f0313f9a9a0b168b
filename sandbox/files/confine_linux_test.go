package files_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/filestest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
)

// both are a Directory in each of its ways.
func both(t *testing.T, d files.Directory, do func(t *testing.T, fs files.FS)) {
	t.Run("openat2", func(t *testing.T) { do(t, d) })
	t.Run("portable", func(t *testing.T) { do(t, files.Portable(d)) })
}

// outside makes a directory beside the workspace with a file in it, and says
// what is there in the end.
func outside(t *testing.T) (work, secret string, check func(*testing.T)) {
	t.Helper()
	work, secret = testdir.New(t), testdir.New(t)
	if err := os.WriteFile(filepath.Join(secret, "f"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	return work, secret, func(t *testing.T) {
		t.Helper()
		entries, err := os.ReadDir(secret)
		if err != nil || len(entries) != 1 {
			t.Errorf("outside is %v, %v", entries, err)
		}
		if text, err := os.ReadFile(filepath.Join(secret, "f")); err != nil || string(text) != "secret" {
			t.Errorf("the file outside holds %q, %v", text, err)
		}
		if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("outside is %v, %v", info.Mode(), err)
		}
	}
}

// Links that lead out are refused by every operation, and not followed by those
// that are about the link.
func TestLinksOut(t *testing.T) {
	work, secret, check := outside(t)
	if err := os.Chmod(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"abs": secret, "rel": "../" + filepath.Base(secret), "file": secret + "/f", "far": "../../../../../../../.." + secret,
		"root": "/", "twice": "abs", "magic": "/proc/self/root" + secret, "up": "..", "new": secret + "/new",
	} {
		if err := os.Symlink(target, filepath.Join(work, name)); err != nil {
			t.Fatal(err)
		}
	}
	d := files.Directory{Path: work, Root: "/workspace"}
	both(t, d, func(t *testing.T, f files.FS) {
		ctx := t.Context()
		refused := func(name string, err error) {
			t.Helper()
			if !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), "leads out of the workspace") {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, name := range []string{"file", "abs/f", "rel/f", "far/f", "root" + secret + "/f", "twice/f", "magic/f", "up/" + filepath.Base(secret) + "/f"} {
			err := f.Read(ctx, name, files.ReadOptions{}, func(files.Info) (io.Writer, error) { return io.Discard, nil })
			refused(name, err)
			_, err = f.Write(ctx, name, strings.NewReader("x"), files.WriteOptions{})
			refused(name, err)
			if name != "file" {
				_, err = f.Stat(ctx, name)
				refused(name, err)
				refused(name, f.Remove(ctx, name, true))
				refused(name, f.Mkdir(ctx, name+"/d", files.MkdirOptions{Parents: true}))
				_, err = f.Download(ctx, name, io.Discard, files.Limits{})
				refused(name, err)
			}
		}
		_, err := f.Write(ctx, "new", strings.NewReader("x"), files.WriteOptions{})
		refused("new", err)
		_, err = f.List(ctx, "abs", files.ListOptions{})
		refused("abs", err)
		data := filestest.Pack(t, tar.Header{Name: "evil", PAXRecords: map[string]string{"content": "x"}})
		_, err = f.Upload(ctx, "abs", bytes.NewReader(data), files.Limits{})
		refused("abs", err)
		// An archive that brings the link itself.
		data = filestest.Pack(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: secret}, tar.Header{Name: "l/evil", PAXRecords: map[string]string{"content": "x"}})
		_, err = f.Upload(ctx, ".", bytes.NewReader(data), files.Limits{})
		refused("l", err)
		data = filestest.Pack(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: secret}, tar.Header{Name: "l/", Typeflag: tar.TypeDir, Mode: 0o777})
		if _, err = f.Upload(ctx, ".", bytes.NewReader(data), files.Limits{}); err == nil {
			t.Error("a link that leads out was taken for a directory")
		}
		if i, err := f.Stat(ctx, "abs"); err != nil || i.Target != secret || i.Type != files.TypeLink {
			t.Errorf("%+v, %v", i, err)
		}
		check(t)
	})
	if err := (files.Directory{Path: work, Root: "/workspace"}).Remove(t.Context(), "abs", true); err != nil {
		t.Error(err)
	}
	check(t)
}

// Paths outside of the workspace are no matter of a Directory.
func TestPathsOut(t *testing.T) {
	f := files.Directory{Path: testdir.New(t), Root: "/workspace"}
	for _, name := range []string{"/etc/passwd", "../x", "/workspace/../etc", "/workspaces", "/"} {
		if _, err := f.Stat(t.Context(), name); !errors.Is(err, corral.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// While a directory is exchanged for a link to another one again and again, each operation
// reaches the first directory or is refused.
func TestRace(t *testing.T) {
	work, secret, check := outside(t)
	if err := os.Chmod(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d", "d/sub"} {
		if err := os.Mkdir(filepath.Join(work, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, filepath.Join(work, "l")); err != nil {
		t.Fatal(err)
	}
	data := filestest.Pack(t, tar.Header{Name: "d/sub/", Typeflag: tar.TypeDir, Mode: 0o777}, tar.Header{Name: "d/f", PAXRecords: map[string]string{"content": "x"}},
		tar.Header{Name: "d/g", Typeflag: tar.TypeLink, Linkname: "d/f"})
	both(t, files.Directory{Path: work, Root: "/workspace"}, func(t *testing.T, f files.FS) {
		ctx, stop := context.WithCancel(t.Context())
		swapped := make(chan struct{})
		go func() {
			defer close(swapped)
			for ctx.Err() == nil {
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(work, "d"), unix.AT_FDCWD, filepath.Join(work, "l"), unix.RENAME_EXCHANGE)
			}
		}()
		done, refusals := 0, 0
		count := func(err error) {
			t.Helper()
			switch {
			case err == nil:
				done++
			case errors.Is(err, corral.ErrDenied), errors.Is(err, corral.ErrUnavailable), errors.Is(err, corral.ErrNotFound), errors.Is(err, corral.ErrInvalid), errors.Is(err, corral.ErrConflict):
				refusals++
			default:
				t.Errorf("%v", err)
			}
		}
		for begun := time.Now(); time.Since(begun) < 10*time.Second && (done < 300 || refusals < 300); {
			_, err := f.Write(ctx, "d/f", strings.NewReader("changed"), files.WriteOptions{})
			count(err)
			var b bytes.Buffer
			count(f.Read(ctx, "d/f", files.ReadOptions{}, func(files.Info) (io.Writer, error) { return &b, nil }))
			if strings.Contains(b.String(), "secret") {
				t.Fatal("the file outside was read")
			}
			count(f.Mkdir(ctx, "d/new", files.MkdirOptions{Mode: 0o777}))
			count(f.Remove(ctx, "d/new", true))
			_, err = f.Upload(ctx, ".", bytes.NewReader(data), files.Limits{})
			count(err)
			_, err = f.Upload(ctx, "d", bytes.NewReader(data), files.Limits{})
			count(err)
			count(f.Remove(ctx, "d/d", true))
			b.Reset()
			_, err = f.Download(ctx, ".", &b, files.Limits{})
			count(err)
			if bytes.Contains(b.Bytes(), []byte("secret\x00")) {
				t.Fatal("the file outside was copied")
			}
			page, err := f.List(ctx, "d", files.ListOptions{})
			count(err)
			for _, i := range page.Entries {
				if i.Size == int64(len("secret")) && i.Type == files.TypeFile {
					t.Fatal("the directory outside was listed")
				}
			}
		}
		stop()
		<-swapped
		if done < 10 || refusals < 10 {
			t.Errorf("%d operations went through, and %d were refused: nothing was exchanged", done, refusals)
		}
		check(t)
	})
}

// A FIFO that takes the place of a file between two looks makes no operation wait.
func TestFIFORace(t *testing.T) {
	work := testdir.New(t)
	file, fifo := filepath.Join(work, "f"), filepath.Join(work, "p")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	both(t, files.Directory{Path: work, Root: "/workspace"}, func(t *testing.T, f files.FS) {
		ctx, stop := context.WithCancel(t.Context())
		swapped := make(chan struct{})
		go func() {
			defer close(swapped)
			for ctx.Err() == nil {
				_ = unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, fifo, unix.RENAME_EXCHANGE)
			}
		}()
		for range 2000 {
			_ = f.Read(ctx, "f", files.ReadOptions{}, func(files.Info) (io.Writer, error) { return io.Discard, nil })
			if _, err := f.Download(ctx, "f", io.Discard, files.Limits{}); err != nil && !errors.Is(err, corral.ErrInvalid) && !errors.Is(err, corral.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		stop()
		<-swapped
	})
}

func TestReadOnly(t *testing.T) {
	work := testdir.New(t)
	both(t, files.Directory{Path: work, Root: "/workspace", ReadOnly: true}, func(t *testing.T, f files.FS) {
		ctx := t.Context()
		_, werr := f.Write(ctx, "f", strings.NewReader(""), files.WriteOptions{})
		_, uerr := f.Upload(ctx, ".", strings.NewReader(""), files.Limits{})
		for _, err := range []error{werr, uerr, f.Mkdir(ctx, "d", files.MkdirOptions{}), f.Remove(ctx, "f", false)} {
			if !errors.Is(err, corral.ErrDenied) || !strings.HasPrefix(err.Error(), "The workspace /workspace is read-only; cannot ") || !strings.Contains(corral.Hint(err), "rw") {
				t.Errorf("%v (%s)", err, corral.Hint(err))
			}
		}
		if _, err := f.List(ctx, ".", files.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// A program that is root acts as the sandbox's user, with no more rights.
func TestUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root can act for others; the rest of this test is for root")
		return
	}
	work := testdir.New(t)
	for _, e := range []struct {
		name string
		mode os.FileMode
		uid  int
	}{{".", os.ModeDir | 0o755, 12345}, {"roots", os.ModeDir | 0o755, 0}, {"mine", 0o600, 12345}, {"theirs", 0o600, 0}, {"open", 0o666, 0}} {
		name := filepath.Join(work, e.name)
		if e.mode.IsDir() && e.name != "." {
			if err := os.Mkdir(name, e.mode.Perm()); err != nil {
				t.Fatal(err)
			}
		} else if !e.mode.IsDir() {
			if err := os.WriteFile(name, []byte(e.name), e.mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Chmod(name, e.mode.Perm()), os.Chown(name, e.uid, e.uid)); err != nil {
			t.Fatal(err)
		}
	}
	both(t, files.Directory{Path: work, Root: "/workspace", User: &files.User{UID: 12345, GID: 54321}, Offset: 345}, func(t *testing.T, f files.FS) {
		ctx := t.Context()
		read := func(name string) error {
			return f.Read(ctx, name, files.ReadOptions{}, func(files.Info) (io.Writer, error) { return io.Discard, nil })
		}
		if err := read("mine"); err != nil {
			t.Error(err)
		}
		if err := read("theirs"); !errors.Is(err, corral.ErrDenied) {
			t.Errorf("another's file was read: %v", err)
		}
		if _, err := f.Write(ctx, "roots/f", strings.NewReader("x"), files.WriteOptions{}); !errors.Is(err, corral.ErrDenied) {
			t.Errorf("another's directory was written to: %v", err)
		}
		i, err := f.Write(ctx, "new", strings.NewReader("x"), files.WriteOptions{})
		if err != nil || i.UID != 12000 || i.GID != 54321-345 {
			t.Errorf("%+v, %v", i, err)
		}
		if err := f.Mkdir(ctx, "a/b", files.MkdirOptions{Parents: true}); err != nil {
			t.Error(err)
		}
		data := filestest.Pack(t, tar.Header{Name: "up/f", Uid: 0, PAXRecords: map[string]string{"content": "x"}})
		if _, err := f.Upload(ctx, ".", bytes.NewReader(data), files.Limits{}); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"new", "a", "a/b", "up", "up/f"} {
			info, err := os.Stat(filepath.Join(work, name))
			if err != nil {
				t.Fatal(err)
			}
			if st := info.Sys().(*syscall.Stat_t); st.Uid != 12345 || st.Gid != 54321 {
				t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
			}
		}
		for _, name := range []string{"new", "a", "up"} {
			if err := f.Remove(ctx, name, true); err != nil {
				t.Error(err)
			}
		}
	})
	// This thread, and all others, are still root's.
	if err := os.WriteFile(filepath.Join(work, "roots", "f"), nil, 0o600); err != nil {
		t.Error(err)
	}
}
