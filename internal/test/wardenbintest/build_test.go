package wardenbintest_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/internal/warden/wardenbin"
)

// What Build makes is what Find accepts.
func TestBuild(t *testing.T) {
	var first string
	t.Run("one", func(t *testing.T) {
		first = wardenbintest.Build(t)
		t.Setenv(wardenbin.EnvVar, first)
		if got, err := wardenbin.Find(t.TempDir(), runtime.GOARCH); err != nil || got != first {
			t.Errorf("Find = %q, %v; want %q", got, err, first)
		}
	})
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("%s is still there after its test: %v", first, err)
	}
	t.Run("two, from elsewhere", func(t *testing.T) {
		t.Chdir("/")
		if second := wardenbintest.Build(t); second == first {
			t.Errorf("two tests share %s", second)
		}
	})
}
