//go:build e2e && linux

package docker_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A container has no namespace of this machine's, but that of users.
func TestNamespaces(t *testing.T) {
	e := enginetest.New(t)
	id, err := e.Create(t.Context(), engine.Spec{Name: "corral-namespaces-" + strings.ToLower(corral.NewID()), Image: images.Busybox, User: "1000:1000", Args: []string{"/bin/sleep", "100"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Remove(context.Background(), id); err != nil {
			t.Error(err)
		}
	}()
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	c, err := e.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"cgroup", "ipc", "mnt", "net", "pid", "uts"} {
		mine, err := os.Readlink("/proc/self/ns/" + ns)
		its, cerr := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", c.PID, ns))
		if err != nil || cerr != nil || mine == its {
			t.Errorf("%s: %s and %s, %v, %v", ns, mine, its, err, cerr)
		}
	}
}
