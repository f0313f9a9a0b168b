//go:build !windows

package terminal

// device is the terminal of a program, whatever its streams are.
const device = "/dev/tty"
