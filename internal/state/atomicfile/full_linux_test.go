package atomicfile

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// fullVar names a directory for a test program of its own, in which files cannot
// become larger than a few bytes.
const fullVar = "CORRAL_ATOMICFILE_FULL"

// Where there is no room for the new file the old one stays.
func TestNoRoom(t *testing.T) {
	dir := os.Getenv(fullVar)
	if dir == "" {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), exe, "-test.run", "^TestNoRoom$")
		cmd.Env = append(os.Environ(), fullVar+"="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	file := filepath.Join(dir, "f")
	if err := Write(file, []byte("old"), Options{Durable: true}); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1000, Max: 1000}); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1001, 1 << 20} {
		if err := Write(file, make([]byte, size), Options{}); !errors.Is(err, unix.EFBIG) {
			t.Errorf("%d bytes: %v", size, err)
		}
		alone(t, file, "old")
	}
}
