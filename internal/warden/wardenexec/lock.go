package wardenexec

import (
	"errors"
	"os"
	"runtime"

	"github.com/corral-exec/corral/internal/state/filelock"
)

// lockJournal tells whether no other program has the journal open, and keeps others
// out until it is shared. Otherwise it shares it. On Windows it is never alone, since an
// open file cannot be replaced there.
func lockJournal(f *os.File) (alone bool, err error) {
	if runtime.GOOS != "windows" {
		if err = filelock.TryLock(f); !errors.Is(err, filelock.ErrLocked) {
			return err == nil, err
		}
	}
	return false, filelock.Share(f)
}
