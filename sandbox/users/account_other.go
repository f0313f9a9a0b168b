//go:build !linux

package users

import "github.com/corral-exec/corral/sandbox/files"

// Prepare is for users that only Linux lends.
func Prepare(int, string, Account, files.User, files.User) error { return nil }
