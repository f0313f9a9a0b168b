package corral_test

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
)

// The kernel's own table is the reference.
func TestSignalNamesAreLinux(t *testing.T) {
	for n := 1; n <= 31; n++ {
		if got, want := corral.Signal(n).String(), unix.SignalName(syscall.Signal(n)); got != want {
			t.Errorf("signal %d is %s, want %s", n, got, want)
		}
	}
}
