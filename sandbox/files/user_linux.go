package files

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// as calls do with the user's rights on files, and no more: on a thread that
// ends with it, since what its IDs are cannot be taken back with certainty. A
// program that is not root does it with its own rights.
func (u *User) as(do func() error) error {
	if u == nil || os.Geteuid() != 0 {
		return do()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked
		err := fmt.Errorf("it was not finished")
		defer func() { done <- err }() // also after runtime.Goexit
		if err = u.become(); err == nil {
			err = do()
		}
	}()
	return <-done
}

// become changes the calling thread alone. Without the file system ID 0 it has
// none of root's powers over files either; see capabilities(7).
func (u *User) become() error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return fmt.Errorf("cannot give up groups: %w", errno)
	}
	// These return the ID before, whatever happens.
	for _, set := range []struct {
		do func(int) (int, error)
		id int
	}{{unix.SetfsgidRetGid, u.GID}, {unix.SetfsuidRetUid, u.UID}} {
		if _, err := set.do(set.id); err != nil {
			return fmt.Errorf("cannot act as user %d:%d: %w", u.UID, u.GID, err)
		}
		if now, err := set.do(-1); err != nil || now != set.id {
			return fmt.Errorf("cannot act as user %d:%d: the system refuses it", u.UID, u.GID)
		}
	}
	return nil
}
