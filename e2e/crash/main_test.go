//go:build e2e

// Package crash_test kills what Corral consists of, at random moments, and
// demands that nothing is lost: gateways with kill -9 (the test binary starts
// itself as one), nodes (which it is as well: the whole program corral),
// containers, wardens, connections to the engine, and test processes themselves,
// which must leave nothing behind that the next one does not clear away.
//
// It needs an engine with the runtime runsc. Moments are random; a failure
// prints the seed, and CORRAL_CRASH_SEED repeats its sequence, though not the
// machine's timing.
package crash_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/internal/cli"
)

// roleVar makes this test binary something else than a test.
const roleVar = "CORRAL_CRASH_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVar); role {
	case "":
		goleak.VerifyTestMain(m)
	case "gateway":
		gateway()
	case "corral":
		os.Exit(cli.Main("v0.0.0-test"))
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
