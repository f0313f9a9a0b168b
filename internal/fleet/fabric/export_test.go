package fabric

import (
	"testing"
	"time"
)

// SetWaitStep has nodes that are opened from now on answer OpWait later. t is not parallel.
func SetWaitStep(t *testing.T, d time.Duration) {
	was := waitStep
	t.Cleanup(func() { waitStep = was })
	waitStep = d
}

// SetMaxAnswers bounds how many answers nodes keep from now on. t is not parallel.
func SetMaxAnswers(t *testing.T, n int) {
	was := maxAnswers
	t.Cleanup(func() { maxAnswers = was })
	maxAnswers = n
}
