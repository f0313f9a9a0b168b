package client_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/filestest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
)

// Files of a gateway are held against the suite that all others are.
func TestFiles(t *testing.T) {
	dir := testdir.New(t)
	g := newFilesRig(t, func(_ context.Context, agent, name string) (files.FS, error) {
		if agent != "main" || name != "box" {
			return nil, corral.Errorf(corral.ErrNotFound, "", "there is no sandbox %s", name)
		}
		return files.Directory{Path: dir, Root: dir}, nil
	})
	ex, err := hostexec.New(hostexec.Config{
		InProcess: true, StateDir: filepath.Join(testdir.New(t), "host"), Workspace: dir, Environ: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ex.Close(); err != nil {
			t.Error(err)
		}
	})
	c := g.client(nil)
	filestest.Run(t, filestest.Place{FS: c.Files("box"), Exec: ex, Root: dir, UID: os.Geteuid(), GID: os.Getegid(), Attributes: runtime.GOOS == "linux"})
	if _, err := c.Files("other").Stat(t.Context(), "."); !errors.Is(err, corral.ErrNotFound) || !strings.Contains(err.Error(), "no sandbox other") {
		t.Errorf("%v", err)
	}
}

// An archive that breaks off on its way is an error, however far it came.
func TestFilesCut(t *testing.T) {
	broken := errors.New("the disk is gone")
	g := newFilesRig(t, func(context.Context, string, string) (files.FS, error) { return breaking{err: broken}, nil })
	var b bytes.Buffer
	_, err := g.client(nil).Files("box").Download(t.Context(), "x", &b, files.Limits{})
	if err == nil || err.Error() != broken.Error() {
		t.Errorf("%v", err)
	}
	err = g.client(nil).Files("box").Read(t.Context(), "x", files.ReadOptions{}, func(files.Info) (io.Writer, error) { return &b, nil })
	if !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "cut while x was read") {
		t.Errorf("%v", err)
	}
}

// So is one whose connection was cut, and not the archive's mistake.
func TestFilesConnectionCut(t *testing.T) {
	archive := make([]byte, 512)
	copy(archive, "x")
	for _, n := range []int{1, 100, 500} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(archive[:n])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}))
		_, err := to(t, client.Options{URL: server.URL}).Files("box").Download(t.Context(), "x", io.Discard, files.Limits{})
		if !errors.Is(err, corral.ErrUnavailable) || errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), "cut while x was read") {
			t.Errorf("after %d bytes: %v", n, err)
		}
		server.Close()
	}
}

type breaking struct {
	files.FS
	err error
}

func (f breaking) Read(_ context.Context, name string, _ files.ReadOptions, to func(files.Info) (io.Writer, error)) error {
	w, err := to(files.Info{Path: name, Type: files.TypeFile, Size: 1 << 20})
	if err == nil {
		_, err = w.Write(make([]byte, 100<<10))
	}
	return errors.Join(err, f.err)
}

func (f breaking) Download(_ context.Context, _ string, w io.Writer, _ files.Limits) (files.Totals, error) {
	tw := tar.NewWriter(w)
	err := tw.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: 100 << 10})
	if err == nil {
		_, err = tw.Write(make([]byte, 100<<10))
	}
	return files.Totals{}, errors.Join(err, f.err)
}

// A gateway without sandboxes says so.
func TestNoFiles(t *testing.T) {
	g := newRig(t)
	if err := g.client(nil).Files("box").Remove(t.Context(), "x", false); !errors.Is(err, corral.ErrNotFound) || !strings.Contains(err.Error(), "no sandboxes") {
		t.Errorf("%v", err)
	}
}

func newFilesRig(t *testing.T, f func(ctx context.Context, agent, name string) (files.FS, error)) *rig {
	t.Helper()
	g := newRig(t)
	g.away()
	g.files = f
	g.back()
	return g
}
