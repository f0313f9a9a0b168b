package users

import (
	"fmt"
	"os"
	"syscall"

	"github.com/corral-exec/corral/sandbox/files"
)

// Default is the user that commands run as when none is configured, on a workspace or,
// if it is empty, on a private one.
func Default(workspace string) string {
	if os.Geteuid() != 0 {
		return fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid())
	}
	if owner, ok := OwnerOf(workspace); ok && workspace != "" && owner.UID != 0 {
		return fmt.Sprintf("%d:%d", owner.UID, owner.GID)
	}
	return Nobody
}

// OwnerOf is the owner of a file; false if that cannot be told.
func OwnerOf(file string) (files.User, bool) {
	info, err := os.Stat(file)
	if err != nil {
		return files.User{}, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return files.User{}, false
	}
	return files.User{UID: int(st.Uid), GID: int(st.Gid)}, true
}
