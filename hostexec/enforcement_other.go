//go:build !linux

package hostexec

// Enforcement fails as New does.
func Enforcement() (string, error) { return "", errUnsupported }
