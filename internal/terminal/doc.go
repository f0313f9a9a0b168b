// Package terminal knows what output does to the terminal that shows it, and what comes
// from the terminal of this program.
//
//	filter.go  takes out of output what would reach beyond the screen
//	screen.go  follows output, to make a terminal what the program left, and new again
//	lines.go   the lines that are typed
package terminal

import (
	"os"

	"golang.org/x/term"
)

// Is reports whether a file is a terminal.
func Is(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

// Shows is the terminal that w is, if it is one.
func Shows(w any) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && Is(f)
}
