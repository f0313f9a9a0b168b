//go:build !windows

package cli

// terminalDevice is the terminal of a program, whatever its streams are.
const terminalDevice = "/dev/tty"
