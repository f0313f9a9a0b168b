package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The mounts that count are those of the thread that asks. Of /proc/self they are
// the first thread's, which may be in the namespace of a container.
func TestMountInfoIsOfThisThread(t *testing.T) {
	dir, err := filepath.EvalSymlinks("/proc/thread-self")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(dir, "/task/") || filepath.Dir(mountinfo) != "/proc/thread-self" {
		t.Errorf("%s is read, of %s", mountinfo, dir)
	}
	if _, err := os.ReadFile(mountinfo); err != nil {
		t.Error(err)
	}
}
