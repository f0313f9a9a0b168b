package sandbox

import (
	"errors"
	"math"
	"testing"

	"github.com/corral-exec/corral"
)

// A number of processors that an engine would take for no limit is refused, and so is one
// that is none.
func TestProcessors(t *testing.T) {
	for _, tt := range []struct {
		cpus float64
		ok   bool
	}{
		{-1, true}, {0, true}, {0.01, true}, {0.5, true}, {4096, true},
		{1e-10, false}, {0.0099, false}, {4097, false}, {1e300, false}, {math.Inf(1), false}, {math.NaN(), false},
	} {
		cfg := Config{Engine: noEngine{}, StateDir: t.TempDir(), Resources: Resources{CPUs: tt.cpus}}
		_, err := cfg.Hash()
		if (err == nil) != tt.ok || err != nil && (!errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "") {
			t.Errorf("%v processors: %v", tt.cpus, err)
		}
	}
}
