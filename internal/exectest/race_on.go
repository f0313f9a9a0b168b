//go:build race

package exectest

const raceEnabled = true
