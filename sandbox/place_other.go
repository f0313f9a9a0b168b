//go:build !linux

package sandbox

func placeOf(string, bool) string { return "" }
