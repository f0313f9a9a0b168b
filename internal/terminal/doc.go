// Package terminal follows the effects of output on the terminal that shows it, and
// reads lines from the terminal of this program.
//
//	filter.go  removes output with effects beyond the screen
//	screen.go  follows output, to put a terminal into the program's state and back
//	lines.go   reads typed lines
package terminal

import (
	"os"

	"golang.org/x/term"
)

// Is reports whether a file is a terminal.
func Is(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

// Shows returns w as a terminal, if it is one.
func Shows(w any) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && Is(f)
}
