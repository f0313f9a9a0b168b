package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/docker"
)

// podmanConfig has locks of its own, which by default are all Podmans' of this
// machine, and the runtime of the other engines.
const podmanConfig = `[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "runc"
`

// podmanStorage takes any file system, and no mounts.
const podmanStorage = `[storage]
driver = "vfs"
graphroot = %q
runroot = %q
`

// Podman starts a Podman with files of its own, gives it the image images.Busybox,
// and returns where it listens. It and all its containers go with the test.
func Podman(t testing.TB) (host string) {
	t.Helper()
	sweepPodmans()
	dir := filepath.Join(testdir.New(t), podmanDir)
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file("containers.conf"), []byte(podmanConfig), 0o600),
		os.WriteFile(file("storage.conf"), fmt.Appendf(nil, podmanStorage, file("root"), file(podmanRun)), 0o600)); err != nil {
		t.Fatal(err)
	}
	host = "unix://" + file("podman.sock")
	cmd := exec.Command("podman", "--root", file("root"), "--runroot", file(podmanRun), "--tmpdir", file("tmp"),
		"--network-config-dir", file("networks"), "system", "service", "--time", "0", host)
	cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+file("containers.conf"), "CONTAINERS_STORAGE_CONF="+file("storage.conf"))
	cmd.Dir = dir // where a note is left of what was killed for memory
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	// It ends with this process, however that does; what keeps its containers
	// does not.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cannot start Podman: %v; e2e/setup.sh test installs it", err)
	}
	engine, err := docker.New(docker.Options{Name: "podman", Host: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := removeAll(engine)
		err = errors.Join(err, cmd.Process.Signal(unix.SIGTERM), ignoreExit(cmd.Wait()), engine.Close(), killPodman(dir))
		if err != nil {
			t.Errorf("cannot clean up a Podman: %v\n%s", err, log.Bytes())
		}
	})
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := engine.Ping(t.Context())
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("Podman does not answer: %v", err)
		}
	}
	store := images.Store{Engine: engine.Images()}
	if _, err := store.Ensure(t.Context(), images.Busybox, nil); err != nil {
		t.Fatal(err)
	}
	return host
}

// removeAll removes the containers of an engine that is a test's alone.
func removeAll(engine *docker.Engine) error {
	ctx, cancel := context.WithTimeout(context.Background(), engineLimit)
	defer cancel()
	list, err := engine.List(ctx, nil)
	errs := []error{err}
	for _, c := range list {
		errs = append(errs, engine.Remove(ctx, c.ID))
	}
	return errors.Join(errs...)
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // however it ends when it is told to
	}
	return err
}

// Names by which the files of a Podman are found again.
const (
	podmanDir = "podman"
	podmanRun = "run"
)

// sweepPodmans has what tests that were killed left of theirs go with their
// directories.
var sweepPodmans = sync.OnceFunc(func() {
	testdir.AlsoRemove(func(dir string) error { return killPodman(filepath.Join(dir, podmanDir)) })
})

// killPodman kills the first processes of containers, by the files in which their
// numbers are; one that is another's by now is not in the container's cgroup.
func killPodman(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, podmanRun, "*-containers", "*", "userdata", "pidfile"))
	errs := []error{err}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // removed just now
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || pid <= 1 {
			continue // not written yet
		}
		id := filepath.Base(filepath.Dir(filepath.Dir(file)))
		cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil || !bytes.Contains(cgroups, []byte(id)) {
			continue
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
