//go:build unix

package files_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/filestest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
)

func TestSuite(t *testing.T) {
	for name, open := range map[string]func(dir string, ex corral.Executor) files.FS{
		"directory": func(dir string, _ corral.Executor) files.FS { return files.Directory{Path: dir, Root: dir} },
		"portable": func(dir string, _ corral.Executor) files.FS {
			return files.Portable(files.Directory{Path: dir, Root: dir})
		},
		"commands": func(dir string, ex corral.Executor) files.FS { return files.Commands{Exec: ex, Root: dir} },
		"sandbox": func(dir string, ex corral.Executor) files.FS {
			return files.Sandbox{Root: dir, Workspace: files.Directory{Path: dir, Root: dir}, Others: files.Commands{Exec: ex, Root: dir}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, ex := testdir.New(t), newHost(t)
			filestest.Run(t, filestest.Place{FS: open(dir, ex), Exec: ex, Root: dir, UID: os.Geteuid(), GID: os.Getegid(), Attributes: name != "commands" && runtime.GOOS == "linux"})
		})
	}
}

// newHost returns an executor of this machine.
func newHost(t *testing.T) corral.Executor {
	t.Helper()
	e, err := hostexec.New(hostexec.Config{
		InProcess: true, StateDir: filepath.Join(testdir.New(t), "host"), Workspace: testdir.New(t),
		Environ: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}
