// Package moments chooses random moments for tests that break things, so that a
// failure can be repeated. It is for tests alone.
package moments

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// Seeded returns a source of moments. A test that fails prints its seed as a
// setting of the environment variable, which repeats it. The source is not for
// concurrent use.
func Seeded(t *testing.T, variable string) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv(variable); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s=%d", variable, seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // moments, not secrets
}

// Between is a time from one to another.
func Between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}
