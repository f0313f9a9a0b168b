//go:build e2e

// Package chaos_test keeps a gateway busy with sessions of all kinds, on the
// host and in a sandbox, kills it with SIGKILL again and again, breaks what is
// under it, and demands that no client notices: no byte of output lost or repeated,
// no exit status lost or invented, every end in the background announced exactly
// once, and nothing left behind.
//
// The short form is part of make test; make chaos is the long one. A failure
// prints the seed, and CORRAL_CHAOS_SEED repeats its sequence, though not the
// machine's timing.
package chaos_test

import (
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// builtDir holds what is built for all tests.
var builtDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "corral-chaos-")
	if err != nil {
		panic(err)
	}
	builtDir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			panic(err)
		}
		os.Exit(code)
	}))
}

// setting is a number that the environment may change.
func setting(t *testing.T, name string, short int) int {
	text := os.Getenv(name)
	if text == "" {
		return short
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number of things", name, text)
	}
	return n
}
