//go:build unix

package patch

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child()
	}
	goleak.VerifyTestMain(m)
}
