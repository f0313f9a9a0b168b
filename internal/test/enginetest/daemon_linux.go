package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/containerd"
)

// A Daemon is a containerd of a test's own, which may be killed. It and all its
// containers go with the test.
type Daemon struct {
	Address string
	config  string
	cmd     *exec.Cmd
	log     bytes.Buffer
}

// daemonConfig has what differs from the defaults: directories, and no plugins
// that sandboxes do not use.
const daemonConfig = `version = 2
root = %[1]q
state = %[2]q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
address = %[3]q
[plugins."io.containerd.internal.v1.opt"]
path = %[4]q
`

// NewDaemon starts a containerd, and gives it the image images.Busybox.
func NewDaemon(t testing.TB) *Daemon {
	t.Helper()
	dir := testdir.New(t)
	d := &Daemon{Address: filepath.Join(dir, "ctrd.sock"), config: filepath.Join(dir, "config.toml")}
	text := fmt.Sprintf(daemonConfig, filepath.Join(dir, "root"), filepath.Join(dir, "run"), d.Address, filepath.Join(dir, "opt"))
	if err := os.WriteFile(d.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Start(t)
	t.Cleanup(func() {
		err := RemoveSandboxes(d.Address, "") // all
		d.Kill(t)
		if err != nil {
			t.Errorf("cannot clean up a containerd: %v\n%s", err, d.log.Bytes())
		}
	})
	engine := d.Engine(t)
	store := images.Store{Engine: engine.Images()}
	if _, err := store.Ensure(t.Context(), images.Busybox, nil); err != nil {
		t.Fatal(err)
	}
	return d
}

// Engine connects to the daemon until t ends.
func (d *Daemon) Engine(t testing.TB) *containerd.Engine {
	t.Helper()
	engine, err := containerd.New(containerd.Options{Address: d.Address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return engine
}

// Start starts the daemon, and returns when it answers.
func (d *Daemon) Start(t testing.TB) {
	t.Helper()
	d.cmd = exec.Command("containerd", "--config", d.config)
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	// It ends with this process, however that does; its shims do not.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		t.Fatalf("cannot start containerd: %v", err)
	}
	engine, err := containerd.New(containerd.Options{Address: d.Address})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := engine.Ping(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("containerd does not answer: %v\n%s", err, d.log.Bytes())
		}
	}
}

// Kill kills the daemon, and nothing else.
func (d *Daemon) Kill(t testing.TB) {
	t.Helper()
	err := d.cmd.Process.Kill()
	var exit *exec.ExitError
	if werr := d.cmd.Wait(); err != nil || werr != nil && !errors.As(werr, &exit) {
		t.Errorf("cannot kill containerd: %v, %v", err, werr)
	}
}
