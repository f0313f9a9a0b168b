//go:build !race

package exectest

// Race reports whether the race detector is on, which makes all of it slower.
const Race = false
