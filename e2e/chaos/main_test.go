//go:build e2e

// Package chaos_test keeps a gateway busy with sessions of all kinds, on the
// host and in a sandbox, kills it with SIGKILL again and again, breaks what is
// under it, and demands that nobody notices: no byte of output lost or repeated,
// no exit status lost or invented, every end in the background announced exactly
// once, and nothing left behind.
//
// The short form is part of make test; make chaos is the long one. A failure
// prints the seed, and CORRAL_CHAOS_SEED repeats its sequence, though not the
// machine's timing.
package chaos_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// seeded returns a source of moments. It is not for concurrent use.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("CORRAL_CHAOS_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("CORRAL_CHAOS_SEED=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // moments, not secrets
}

func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}
