package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
)

// gatewayPrefix begins the names of the directories that calls on the gateway
// have in the temporary directory. Those of ephemeral sandboxes begin
// otherwise: they go with their containers (see sandbox.Sweep).
const gatewayPrefix = "corral-exec-"

// A tempDir is removed by Close, or, if this process is killed before, by the
// next call on the gateway.
type tempDir struct {
	path string
	lock *os.File // on the directory itself, held while this process lives
}

func newTempDir() (*tempDir, error) {
	for {
		dir, err := os.MkdirTemp("", gatewayPrefix)
		if err == nil {
			var lock *os.File
			if lock, err = lockDir(dir); err == nil {
				return &tempDir{dir, lock}, nil
			}
		}
		// Another call may have taken it for that of a dead process.
		if dir == "" || !errors.Is(err, errInUse) && !errors.Is(err, fs.ErrNotExist) {
			return nil, NoTempDir(err)
		}
	}
}

func NoTempDir(err error) error {
	return corral.Errorf(corral.ErrUnavailable, "set TMPDIR to a directory that can be written", "cannot make a temporary directory: %w", err)
}

func (t *tempDir) Close() error {
	return errors.Join(os.RemoveAll(t.path), t.lock.Close())
}

var errInUse = errors.New("its process lives, or is another user's")

// sweepTempDirs removes what calls that were killed left behind. What cannot be
// removed is no reason not to run a command, and the next call tries again. It
// returns the directories of those whose command may still run.
func sweepTempDirs() (running []string) {
	if runtime.GOOS == "windows" {
		return nil // see lockDir there
	}
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), gatewayPrefix+"*"))
	if err != nil {
		return nil
	}
	for _, dir := range dirs {
		if lock, err := lockDir(dir); err == nil {
			if hostexec.KilledWithCommands(dir) {
				running = append(running, dir)
			} else {
				_ = os.RemoveAll(dir)
			}
			lock.Close()
		}
	}
	return running
}
