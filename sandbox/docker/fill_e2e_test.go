//go:build e2e

package docker_test

import (
	"context"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
)

// A volume that was made and not filled is filled by all who want it, at the same time,
// and none of them sees a part of the file.
func TestFill(t *testing.T) {
	e := enginetest.New(t)
	name := "corral-fill-" + strings.ToLower(corral.NewID())
	docker := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("docker", args...).CombinedOutput()
		if err != nil {
			t.Errorf("docker %s: %v: %s", args, err, out)
		}
		return string(out)
	}
	docker("volume", "create", name)
	t.Cleanup(func() {
		if err := e.RemoveVolume(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	content := []byte(strings.Repeat("content\n", 1<<18))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := e.Fill(t.Context(), name, images.Busybox, "f", content); err != nil {
				t.Error(err)
				return
			}
			if got := docker("run", "--rm", "--network=none", "-v", name+":/v:ro", images.Busybox, "sh", "-c", "stat -c '%s %a' /v/f; wc -l </v/f"); got != "2097152 555\n262144\n" {
				t.Errorf("the volume has %q", got)
			}
		})
	}
	wg.Wait()
	if left := docker("ps", "-aq", "--filter", "volume="+name); left != "" {
		t.Errorf("left are %s", left)
	}
}
