package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	{"debootstrap", "debootstrap"}, {"apt-get", "apt"}, {"dpkg", "dpkg"}, {"mount", "mount"}, {"awk", "mawk"},
}

// systemPath is where the script's programs are, whatever this process's PATH.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func checkDebian() error {
	if os.Geteuid() != 0 {
		return corral.Errorf(corral.ErrUnavailable, "build it once as root, or use an image of a registry",
			"cannot build image %s: only root can install Debian's packages, and this is user %d", Default, os.Geteuid())
	}
	for _, tool := range debianTools {
		if !onPath(tool.program, systemPath) {
			return corral.Errorf(corral.ErrUnavailable, "install it: apt-get install "+tool.pkg, "cannot build image %s: %s is not installed", Default, tool.program)
		}
	}
	return nil
}

func onPath(program, path string) bool {
	for _, dir := range filepath.SplitList(path) {
		if info, err := os.Stat(filepath.Join(dir, program)); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// buildDebian installs the packages into a directory below dir. Its caller
// holds the lock.
func buildDebian(ctx context.Context, dir string, report Progress) (_ rootfs, err error) {
	if err := sweep(dir); err != nil {
		return nil, fmt.Errorf("cannot build image %s: %w", Default, err)
	}
	temp, err := os.MkdirTemp(dir, tempPrefix)
	if err != nil {
		return nil, fmt.Errorf("cannot build image %s: %w", Default, err)
	}
	tree := &debianFS{temp: temp}
	defer func() {
		if err != nil {
			err = errors.Join(err, tree.Close())
		}
	}()
	if err := installDebian(ctx, temp, report); err != nil {
		return nil, err
	}
	if err := tree.open(); err != nil {
		return nil, fmt.Errorf("cannot build image %s: %w", Default, err)
	}
	return tree, nil
}

// sweep removes what builds left behind that were killed together with their
// machine or by SIGKILL.
func sweep(dir string) error {
	if dir == "" {
		dir = os.TempDir()
	}
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
func installDebian(ctx context.Context, temp string, report Progress) error {
	root := filepath.Join(temp, "root")
	// apt drops its privileges to fetch, and must still get there.
	if err := os.Chmod(temp, 0o711); err != nil {
		return fmt.Errorf("cannot build image %s: %w", Default, err)
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		return fmt.Errorf("cannot build image %s: %w", Default, err)
	}
	all, err := aptSources(os.DirFS("/etc/apt"))
	if err != nil {
		return fmt.Errorf("cannot build image %s: read apt's configuration: %w", Default, err)
	}
	mirror, sources := debianSources(all, debianContent.Suite)

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
		"ROOT="+root, "CONFIG="+filepath.Join(temp, "apt.conf"), "SUITE="+debianContent.Suite,
		"MIRROR="+mirror, "SOURCES="+sources, "PACKAGES="+strings.Join(debianContent.Packages, " "))
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
			"cannot build image %s: this process may not make namespaces: %w", Default, err)
	}
	return corral.Errorf(corral.ErrUnavailable, "check that this machine can install packages: apt-get update; and that there are 500 MB free in "+filepath.Dir(temp),
		"cannot build image %s: %s: %w", Default, out.reason(), err)
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
