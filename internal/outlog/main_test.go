package outlog

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("OUTLOG_TEST_PUMP"); role != "" {
		pumpUntilKilled(role)
		return
	}
	goleak.VerifyTestMain(m)
}
