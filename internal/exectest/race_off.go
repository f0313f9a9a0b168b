//go:build !race

package exectest

const raceEnabled = false
