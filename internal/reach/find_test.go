package reach

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// A gateway that is there and cannot be called is none that is not there.
func TestSilentGateway(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.ENOENT: false, syscall.ECONNREFUSED: false, syscall.EACCES: true, syscall.EAGAIN: true, os.ErrDeadlineExceeded: true,
	} {
		if silent(fmt.Errorf("cannot: %w", err)) != want {
			t.Errorf("%v: not %v", err, want)
		}
	}
}
