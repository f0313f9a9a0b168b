//go:build !linux

package testdir

import "testing"

// New returns an empty directory that is removed when t ends.
func New(t testing.TB) string { return t.TempDir() }
