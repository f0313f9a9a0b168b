package api

import (
	"testing"
	"time"
)

// What is asked for as a little is never none.
func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "-0": 0, "90": 90 * time.Second, "1.5": 1500 * time.Millisecond, "90s": 90 * time.Second,
		"1e-12": 1, "-1e-12": -1, "-1": -time.Second, "-1ns": -1,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
}
