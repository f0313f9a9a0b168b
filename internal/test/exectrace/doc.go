// Package exectrace runs a command and records every program that it and its
// descendants execute, as the kernel saw it. It is for tests that compare what
// a command was expected to run with what it ran; it needs Linux.
package exectrace
