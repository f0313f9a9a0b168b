package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/corral-exec/corral"
)

// tempPrefix begins the names of the directories that root file systems are
// assembled in.
const tempPrefix = "corral-rootfs-"

// debianTools are the programs of this machine that the script runs, and the
// packages they are in.
var debianTools = []struct{ program, pkg string }{
	{"mmdebstrap", "mmdebstrap"}, {"apt-get", "apt"}, {"dpkg", "dpkg"}, {"mount", "mount"}, {"awk", "mawk"},
}

// keyring has the keys of Debian's archives.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// systemPath is where the script's programs are, whatever this process's PATH.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func checkDebian(name string) error {
	if os.Geteuid() != 0 {
		return corral.Errorf(corral.ErrUnavailable, "build it once as root, or use an image of a registry",
			"cannot build image %s: only root can install Debian's packages, and this is user %d", name, os.Geteuid())
	}
	for _, tool := range debianTools {
		if !onPath(tool.program, systemPath) {
			return corral.Errorf(corral.ErrUnavailable, "install it: apt-get install "+tool.pkg, "cannot build image %s: %s is not installed", name, tool.program)
		}
	}
	if _, err := os.Stat(keyring); err != nil {
		return corral.Errorf(corral.ErrUnavailable, "install it: apt-get install debian-archive-keyring", "cannot build image %s: the keys of Debian's archives are not installed: %w", name, err)
	}
	return nil
}

func onPath(program, path string) bool {
	return slices.ContainsFunc(filepath.SplitList(path), func(dir string) bool {
		info, err := os.Stat(filepath.Join(dir, program))
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	})
}

// buildDebian installs the packages into a directory below that of b. Its caller
// holds the lock.
func buildDebian(ctx context.Context, b building, report Progress) (_ rootfs, err error) {
	failed := func(err error) error { return fmt.Errorf("cannot build image %s: %w", b.recipe.name, err) }
	if err := sweep(b.dir); err != nil {
		return nil, failed(err)
	}
	temp, err := os.MkdirTemp(b.dir, tempPrefix)
	if err != nil {
		return nil, failed(err)
	}
	fs := &debianFS{temp: temp}
	defer func() {
		if err != nil {
			err = errors.Join(err, fs.Close())
		}
	}()
	begun := time.Now()
	if err := installDebian(ctx, temp, b, report); err != nil {
		return nil, err
	}
	if err := fs.open(b, begun); err != nil {
		return nil, failed(err)
	}
	if err := checkPins(b, fs.packages); err != nil {
		return nil, err
	}
	return fs, nil
}

// sweep removes what builds left behind that were killed together with their
// machine or by SIGKILL.
func sweep(dir string) error {
	dir = cmp.Or(dir, os.TempDir())
	left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range left {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			continue // gone, or not ours
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// installDebian runs the script in namespaces of its own. It is the init of
// its PID namespace: when it is killed, the kernel kills all that it started,
// and with the last of them go the mounts.
func installDebian(ctx context.Context, temp string, b building, report Progress) error {
	failed := func(err error) error { return fmt.Errorf("cannot build image %s: %w", b.recipe.name, err) }
	root := filepath.Join(temp, "root")
	if err := admitApt(temp); err != nil {
		return failed(err)
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		return failed(err)
	}
	pins := filepath.Join(temp, "pins")
	if err := os.WriteFile(pins, preferences(b.pins), 0o644); err != nil {
		return failed(err)
	}
	all, err := aptSources(os.DirFS("/etc/apt"))
	if err != nil {
		return failed(fmt.Errorf("read apt's configuration: %w", err))
	}
	content := b.recipe.content.(debianContent)

	// The parent-death signal is sent when the thread ends that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", debianScript)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID,
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	cmd.Env = append(proxyEnv(os.Environ()),
		"PATH="+systemPath, "LC_ALL=C.UTF-8", "HOME=/root", "DEBIAN_FRONTEND=noninteractive",
		"TMPDIR="+temp, "KEYRING="+keyring, "PINS="+pins,
		"ROOT="+root, "CONFIG="+filepath.Join(temp, "apt.conf"), "SLIM="+filepath.Join(temp, "dpkg.cfg"), "SUITE="+content.Suite,
		"SOURCES="+debianSources(all, content.Suite), "PACKAGES="+strings.Join(content.Packages, " "))
	cmd.Dir = temp
	cmd.WaitDelay = 5 * time.Second
	out := &lineWriter{report: func(line string) { report(Event{Phase: PhaseInstall, Message: line}) }}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL):
		return corral.Errorf(corral.ErrUnavailable, "build it outside of a container, or use an image of a registry",
			"cannot build image %s: this process may not make namespaces: %w", b.recipe.name, err)
	}
	return corral.Errorf(corral.ErrUnavailable, "check that this machine can install packages: apt-get update; and that there is room in "+filepath.Dir(temp)+": 2 GB for "+Common+", 500 MB for the others",
		"cannot build image %s: %s: %w", b.recipe.name, out.reason(), err)
}

// admitApt lets apt get into a directory of root's after it dropped its privileges to
// fetch, but not all users: passwords of mirrors and proxies are in there.
func admitApt(dir string) error {
	apt, err := user.Lookup("_apt")
	if err != nil {
		return nil //nolint:nilerr // without such a user it fetches as root
	}
	gid, err := strconv.Atoi(apt.Gid)
	if err != nil {
		return err
	}
	return errors.Join(os.Chown(dir, -1, gid), os.Chmod(dir, 0o710))
}

// proxyEnv is what of an environment says how to reach a mirror.
func proxyEnv(environ []string) []string {
	var env []string
	for _, kv := range environ {
		switch key, _, _ := strings.Cut(kv, "="); strings.ToLower(key) {
		case "http_proxy", "https_proxy", "no_proxy":
			env = append(env, kv)
		}
	}
	return env
}
