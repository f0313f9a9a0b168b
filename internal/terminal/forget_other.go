//go:build !linux

package terminal

import "os"

// forgetTyped does nothing on this system: a line that was begun before a question can
// still be entered as its answer.
func forgetTyped(*os.File) {}
