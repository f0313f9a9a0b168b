package wardenexec

import (
	"errors"
	"os"
	"runtime"

	"github.com/corral-exec/corral/internal/state/filelock"
)

// lockJournal tells whether nobody else has the journal open, and keeps others
// out until it is shared. Otherwise it shares it. On Windows, where what is open
// cannot be replaced, nobody is ever alone.
func lockJournal(f *os.File) (alone bool, err error) {
	if runtime.GOOS != "windows" {
		if err = filelock.TryLock(f); !errors.Is(err, filelock.ErrLocked) {
			return err == nil, err
		}
	}
	return false, filelock.Share(f)
}
