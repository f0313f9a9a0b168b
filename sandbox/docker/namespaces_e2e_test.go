//go:build e2e && linux

package docker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// boxOn is an ephemeral sandbox on an engine of the test's own.
func boxOn(t *testing.T, host string, driver sandbox.Driver) *sandbox.Executor {
	t.Helper()
	e, err := docker.New(docker.Options{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	store := images.Store{Engine: e.Images()}
	if _, err := store.Ensure(t.Context(), images.Busybox, nil); err != nil {
		t.Fatal(err)
	}
	x, err := sandbox.New(sandbox.Config{Engine: e, StateDir: testdir.New(t), Image: images.Busybox, WardenPath: wardenbintest.Build(t), Driver: driver, Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(x.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	})
	return x
}

// A container's first process is ours, also on an engine that is to begin all containers with
// an init of its own (dockerd --init): that would know the warden as a process that can be
// killed from inside, and not as the one that dials.
func TestInitOfTheEngine(t *testing.T) {
	x := boxOn(t, enginetest.Dockerd(t, nil, "--init"), sandbox.DriverFDs)
	r, err := runner.Run(t.Context(), x, corral.Command{Shell: "kill -9 -1; cat /proc/1/comm"}, runner.Options{})
	if err != nil || !strings.Contains(r.Stdout.Head, "warden") {
		t.Errorf("%+v, %v", r, err)
	}
}

// gVisor is known also where it is the engine's own runtime, and none is configured: it takes
// many processes of the machine for each of a sandbox's, and ends if it gets no more.
func TestRuntimeOfTheEngine(t *testing.T) {
	runsc := filepath.Join(testdir.New(t), "runsc")
	if err := os.WriteFile(runsc, []byte("#!/bin/sh\nexec runsc --network=none \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	x := boxOn(t, enginetest.Dockerd(t, nil, "--add-runtime=runsc="+runsc, "--default-runtime=runsc"), sandbox.DriverFrames)
	r, err := runner.Run(t.Context(), x, corral.Command{Shell: "for i in $(seq 60); do sleep 1 & done; wait; id -u; dmesg"}, runner.Options{})
	if err != nil || !strings.HasPrefix(r.Stdout.Head, "65534\n") || !strings.Contains(r.Stdout.Head, "gVisor") {
		t.Errorf("%+v, %v", r, err)
	}
}
