//go:build !linux

package probes

import (
	"fmt"
	"io"
	"runtime"
)

// Main is the program. It returns the exit code.
func Main(_ []string, _, stderr io.Writer) int {
	fmt.Fprintf(stderr, "corral-escape: this program runs on Linux only; this is %s\n", runtime.GOOS)
	return 2
}
