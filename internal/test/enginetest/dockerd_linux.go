package enginetest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/sandbox/docker"
)

// A User is one of this machine.
type User struct{ UID, GID int }

// NewUser makes a user with a range of subordinate IDs.
func NewUser(t testing.TB) (name string, uid, gid int) {
	t.Helper()
	name = "corral-test-" + strings.ToLower(corral.NewID()[:10])
	if out, err := exec.Command("useradd", "--no-create-home", "--user-group", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("userdel", name).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, uerr := strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	if err := errors.Join(uerr, gerr); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile("/etc/subuid"); err != nil || !strings.Contains(string(text), name+":") {
		t.Fatalf("the user %s has no subordinate IDs: %s, %v", name, text, err)
	}
	return name, uid, gid
}

// Dockerd starts a Docker engine of a test's own, root's or a user's, with further
// arguments. It ends with the test.
func Dockerd(t testing.TB, of *User, more ...string) (host string) {
	t.Helper()
	dir := OpenDir(t)
	var log strings.Builder
	args := []string{"dockerd", "--config-file", filepath.Join(dir, "daemon.json"), "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
		"--pidfile", filepath.Join(dir, "dockerd.pid"), "--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false",
		"--containerd-namespace", filepath.Base(dir), "--containerd-plugins-namespace", filepath.Base(dir) + "-plugins"}
	socket := filepath.Join(dir, "docker.sock")
	args = append(args, more...)
	cmd := exec.Command(args[0])
	if of == nil { // without a bridge it removes docker0, which is another's
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	} else {
		home := filepath.Join(dir, "home")
		if err := errors.Join(os.Mkdir(home, 0o700), os.Chown(home, of.UID, of.GID), os.Chown(dir, of.UID, of.GID)); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"rootlesskit", "--state-dir", filepath.Join(home, "rootlesskit"), "--net=host", "--copy-up=/etc", "--copy-up=/run", "--propagation=rslave",
			// What is a link to root's there.
			"sh", "-c", `rm -f /run/docker /run/containerd /run/xtables.lock; exec "$@"`, "sh"},
			append(args, "--rootless", "--storage-driver=vfs", "--log-level=warn")...)
		cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home, "XDG_RUNTIME_DIR=" + home}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(of.UID), Gid: uint32(of.GID)}}
	}
	args = append(args, "-H", "unix://"+socket)
	path, err := exec.LookPath(args[0])
	if err != nil {
		t.Fatalf("%v; e2e/setup.sh test installs it", err)
	}
	cmd.Path, cmd.Args, cmd.Stdout, cmd.Stderr = path, args, &log, &log
	if err := os.WriteFile(filepath.Join(dir, "daemon.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Errorf("the engine does not end: %s", &log)
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	engine, err := docker.New(docker.Options{Host: "unix://" + socket})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if _, err := engine.Info(t.Context()); err == nil {
			return "unix://" + socket
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the engine ended: %v: %s", err, &log)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the engine does not answer: %s", &log)
		}
	}
}

// OpenDir is a directory that others can get through, unlike those of testdir.
func OpenDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "corral-engine-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// CopyImage copies an image from the engine of this machine to one at an address: that is
// faster than to build it.
func CopyImage(t testing.TB, address, image string) {
	t.Helper()
	engine := New(t)
	store := images.Store{Engine: engine.Images()}
	if _, err := store.Ensure(t.Context(), image, nil); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", `docker save "$1" | docker -H "$0" load`, address, image).CombinedOutput(); err != nil {
		t.Fatalf("cannot copy the image %s: %v: %s", image, err, out)
	}
}
