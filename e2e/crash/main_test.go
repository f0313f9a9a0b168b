//go:build e2e

// Package crash_test kills what Corral consists of, at random moments, and
// demands that nothing is lost: gateways with kill -9 (the test binary starts
// itself as one), containers, wardens, connections to the engine, and test
// processes themselves, which must leave nothing behind that the next one does
// not clear away.
//
// It needs an engine with the runtime runsc. Moments are random; a failure
// prints the seed, and CORRAL_CRASH_SEED repeats its sequence, though not the
// machine's timing.
package crash_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// roleVar makes this test binary something else than a test.
const roleVar = "CORRAL_CRASH_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVar); role {
	case "":
		goleak.VerifyTestMain(m)
	case "gateway":
		gateway()
	case "failing":
		every := func(string, string) (bool, error) { return true, nil }
		testing.Main(every, []testing.InternalTest{{Name: "TestFailsAtWork", F: failAtWork}}, nil, nil)
	default:
		fmt.Fprintf(os.Stderr, "unknown role %q\n", role)
		os.Exit(2)
	}
}

// child is the environment of this binary in a role.
func child(role string, env ...string) []string {
	return append(append(os.Environ(), roleVar+"="+role), env...)
}

// seeded returns a source of moments.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("CORRAL_CRASH_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("CORRAL_CRASH_SEED=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // moments, not secrets
}

func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}
