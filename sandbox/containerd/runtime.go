//go:build linux

package containerd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/api/types/runc/options"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/sandbox/engine"
)

// shimRuntime is the shim of every runtime that has none of its own.
const (
	shimRuntime    = "io.containerd.runc.v2"
	defaultRuntime = "runc"
)

// knownRuntimes are those that the runc shim can drive, being told where the
// program is.
var knownRuntimes = []string{defaultRuntime, "crun", "youki", "runsc"}

// installedRuntimes are those of them that are on this machine.
func installedRuntimes() []string {
	var found []string
	for _, name := range knownRuntimes {
		if _, err := findProgram(name); err == nil {
			found = append(found, name)
		}
	}
	return found
}

// findProgram finds a program also where PATH of a user has no sbin.
func findProgram(name string) (string, error) {
	if file, err := exec.LookPath(name); err == nil {
		return filepath.Abs(file)
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if file, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return file, nil
		}
	}
	return "", exec.ErrNotFound
}

// runtime is how the runtime called name is told to containerd: by its shim, and
// the options of that. Empty is the default one; with dots in it, the name is a
// shim's; otherwise it is a program.
func (e *Engine) runtime(name string, user specs.User) (shim string, opts *options.Options, err error) {
	if strings.HasPrefix(name, shimPrefix) {
		return name, nil, nil
	}
	// The streams are the user's, who may open them again as /dev/stdout.
	opts = &options.Options{IoUid: user.UID, IoGid: user.GID}
	if name == "" || name == defaultRuntime {
		return shimRuntime, opts, nil
	}
	program, err := findProgram(name)
	if err != nil {
		return "", nil, noRuntime(name)
	}
	if engine.IsGVisor(name) {
		if program, err = e.gvisor(program); err != nil {
			return "", nil, fmt.Errorf("cannot use the runtime %s: %w", name, err)
		}
	}
	opts.BinaryName = program
	return shimRuntime, opts, nil
}

// gvisor returns a program that is runsc with the network that a sandbox is to
// have. Otherwise runsc takes over the interfaces of the container's namespace, where
// the loopback interface is not switched on; and the shim has no way to hand on a
// flag.
func (e *Engine) gvisor(runsc string) (string, error) {
	if strings.ContainsAny(runsc, "'\n") {
		return "", corral.Errorf(corral.ErrInvalid, "move it", "the path %q is too strange for a script", runsc)
	}
	script := fmt.Appendf(nil, "#!/bin/sh\nexec '%s' --network=none --host-uds=open \"$@\"\n", runsc)
	file := filepath.Join(e.dir, "bin", filepath.Base(runsc))
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, script) {
		return file, nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	return file, atomicfile.Write(file, script, atomicfile.Options{Mode: 0o755})
}
