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
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
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

// A container's first process is ours, also on an engine that is to begin all containers with
// an init of its own (dockerd --init): that would know the warden as a process that can be
// killed from inside, and not as the one that dials.
func TestInitOfTheEngine(t *testing.T) {
	e, err := docker.New(docker.Options{Host: enginetest.Dockerd(t, nil, "--init")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	store := images.Store{Engine: e.Images()}
	if _, err := store.Ensure(t.Context(), images.Busybox, nil); err != nil {
		t.Fatal(err)
	}
	cfg := sandbox.Config{Engine: e, StateDir: testdir.New(t), Image: images.Busybox, WardenPath: wardenbintest.Build(t), Driver: sandbox.DriverFDs, Ephemeral: true}
	x, err := sandbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}()
	r, err := runner.Run(t.Context(), x, corral.Command{Shell: "kill -9 -1; cat /proc/1/comm"}, runner.Options{})
	if err != nil || !strings.Contains(r.Stdout.Head, "warden") {
		t.Errorf("%+v, %v", r, err)
	}
}
