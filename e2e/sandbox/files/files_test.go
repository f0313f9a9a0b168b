//go:build e2e

// Package files_test demands of the files in a sandbox what they are, and who owns
// them, by every way in which Docker's sandboxes are reached.
package files_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/filestest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/files"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newFilesSandbox(t *testing.T, cfg sandbox.Config) (*sandbox.Executor, files.FS) {
	t.Helper()
	cfg.Engine, cfg.StateDir, cfg.Image = enginetest.New(t), filepath.Join(testdir.New(t), "state"), images.Busybox
	cfg.WardenPath, cfg.Ephemeral, cfg.Isolation.User = wardenbintest.Build(t), true, "1000:1000"
	e, err := sandbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	f, err := e.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e, f
}

// The same suite for every way in, on every engine: /tmp is by commands, the
// workspace is this machine's.
func TestFiles(t *testing.T) {
	for name, cfg := range map[string]sandbox.Config{
		"docker":       {},
		"docker-runsc": {Runtime: "runsc"},
		"docker-exec":  {Driver: sandbox.DriverExec},
	} {
		t.Run(name, func(t *testing.T) {
			e, f := newFilesSandbox(t, cfg)
			p := filestest.Place{FS: f, Exec: e, Root: "/workspace", UID: 1000, GID: 1000, NoFIFOs: cfg.Runtime == "runsc", Attributes: true}
			t.Run("workspace", func(t *testing.T) { filestest.Run(t, p) })
			p.Root, p.NoFIFOs, p.Attributes, p.NotDeep, p.UTF8Only = "/tmp/at", false, false, true, cfg.Driver == sandbox.DriverExec
			t.Run("tmp", func(t *testing.T) { filestest.Run(t, p) })
		})
	}
}

// A process in the sandbox exchanges a directory for a link to one of this
// machine, over and over, while files are written there.
func TestFilesRace(t *testing.T) {
	outside := testdir.New(t)
	if err := os.Chmod(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	e, f := newFilesSandbox(t, sandbox.Config{})
	p, err := e.Start(t.Context(), corral.Command{Shell: `mkdir d; ln -s ` + outside + ` l; echo ready; while :; do mv d t; mv l d; mv d l; mv t d; done 2>/dev/null`})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	if c, err := p.Log().Read(t.Context(), 0, buf); err != nil || !strings.HasPrefix(string(c.Data), "ready") {
		t.Fatalf("%q, %v", c.Data, err)
	}
	written, refused := 0, 0
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if _, err := f.Write(t.Context(), "d/f", strings.NewReader("x"), files.WriteOptions{}); err == nil {
			written++
		} else {
			refused++
		}
		if written > 20 && refused > 20 {
			break
		}
	}
	if err := p.Signal(t.Context(), corral.SIGKILL); err != nil {
		t.Error(err)
	}
	if written == 0 || refused == 0 {
		t.Errorf("%d writes went through and %d were refused: nothing was exchanged", written, refused)
	}
	if got, err := os.ReadDir(outside); err != nil || len(got) != 0 {
		t.Errorf("outside is %v, %v", got, err)
	}
}

// What commands may not do, the way in may not either.
func TestFilesReadOnly(t *testing.T) {
	work := testdir.New(t)
	if err := errors.Join(os.WriteFile(filepath.Join(work, "f"), []byte("x"), 0o644), os.Chown(work, 1000, 1000)); err != nil {
		t.Fatal(err)
	}
	_, f := newFilesSandbox(t, sandbox.Config{Workspace: sandbox.Workspace{Dir: work, Access: sandbox.AccessReadOnly}})
	_, err := f.Write(t.Context(), "/workspace/f", strings.NewReader("y"), files.WriteOptions{})
	if want := "The workspace /workspace is read-only; cannot write /workspace/f"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := f.Read(t.Context(), "f", files.ReadOptions{}, func(files.Info) (io.Writer, error) { return io.Discard, nil }); err != nil {
		t.Error(err)
	}
	if _, err := f.Write(t.Context(), "/etc/f", strings.NewReader("y"), files.WriteOptions{}); err == nil {
		t.Error("the root was written to")
	}
}
