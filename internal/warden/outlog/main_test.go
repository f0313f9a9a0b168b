package outlog

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// toBeKilled is what this program does as a process that a test kills.
var toBeKilled = func(dir string) {}

func TestMain(m *testing.M) {
	if dir := os.Getenv("OUTLOG_TEST_PUMP"); dir != "" {
		toBeKilled(dir)
		return
	}
	goleak.VerifyTestMain(m)
}
