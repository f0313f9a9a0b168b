//go:build e2e && linux

package containerd_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/enginetest"
)

// A container whose shim does not answer, as on a machine with too much to do, has not
// ended.
func TestShimIsSilent(t *testing.T) {
	e := enginetest.Containerd(t)
	labels := map[string]string{"corral-silent": corral.NewID()}
	s := spec("corral-test-silent", "sleep 100")
	s.Labels = labels
	id := makeOne(t, e, s)
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	shim := 0
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), "containerd-shim") && strings.Contains(string(b), "\x00"+id+"\x00") {
			if shim, err = strconv.Atoi(filepath.Base(filepath.Dir(file))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if shim == 0 {
		t.Fatal("it has no shim")
	}
	if err := syscall.Kill(shim, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c, ierr := e.Inspect(t.Context(), id)
	list, lerr := e.List(t.Context(), labels)
	if err := syscall.Kill(shim, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(ierr, corral.ErrUnavailable) {
		t.Errorf("%+v, %v", c, ierr)
	}
	if lerr != nil || len(list) != 1 || !list[0].Running {
		t.Errorf("%+v, %v", list, lerr)
	}
	if c, err := e.Inspect(t.Context(), id); err != nil || !c.Running {
		t.Errorf("when it answers again: %+v, %v", c, err)
	}
}
