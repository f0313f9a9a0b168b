// Package wardenbin holds the corral-warden program for every architecture that
// Corral supports.
//
// The warden is a program of its own: PID 1 of a sandbox's container, and the
// keeper of host commands. It is embedded here from bin/, which is in git, so
// that a program that fetched Corral as a Go module has it without a build step.
// [Find] makes a file of it, and [Bytes] is its content. The environment variable
// CORRAL_WARDEN names another file to use instead. One that cannot be a warden
// (a dynamically linked program, a different architecture) is an error: the
// embedded one would hide the mistake.
//
// The files in bin/ are built from cmd/corral-warden by "make wardens"; "make
// check" compares them with the sources. They are not compressed, because git and
// the module zip compress them anyway, and git stores a new version as its
// difference from the old one, a third of what it would take compressed.
//
// The package does not build, start or speak to a warden.
package wardenbin

import (
	"bytes"
	_ "embed"
	"os"
	"path/filepath"

	"github.com/corral-exec/corral"
)

// EnvVar names a file to use instead of the embedded warden.
const EnvVar = "CORRAL_WARDEN"

const name = "corral-warden"

var (
	//go:embed bin/corral-warden-amd64
	amd64 []byte
	//go:embed bin/corral-warden-arm64
	arm64 []byte
)

// embedded are the wardens by GOARCH; they are never changed. Both are in every program, because the
// engine's machine may be of another architecture than this one.
var embedded = map[string][]byte{"amd64": amd64, "arm64": arm64}

// Find returns the path of a warden for goarch (a GOARCH value). The embedded
// one is written into stateDir first, once for each content, under a name that
// holds its hash; stateDir is created if it does not exist.
func Find(stateDir, goarch string) (string, error) {
	path, data, err := search(goarch)
	if err != nil || path != "" {
		return path, err
	}
	return extract(stateDir, data)
}

// maxSize bounds what Read reads, in bytes.
const maxSize = 64 << 20

// Read returns the content of a file that is said to be a warden.
func Read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxSize {
		return nil, corral.Errorf(corral.ErrInvalid, "", "%s has %d bytes; that is no warden", file, info.Size())
	}
	return os.ReadFile(file)
}

// Bytes returns the content of the warden that Find would return.
func Bytes(goarch string) ([]byte, error) {
	_, data, err := search(goarch)
	return bytes.Clone(data), err
}

// search returns a warden's content, and its path unless it is the embedded one.
func search(goarch string) (path string, data []byte, err error) {
	if _, ok := machines[goarch]; !ok {
		return "", nil, corral.Errorf(corral.ErrInvalid, "use one of "+supported(), "there is no warden for the architecture %q", goarch)
	}
	path = os.Getenv(EnvVar)
	if path == "" {
		return "", embedded[goarch], nil
	}
	const hint = "set " + EnvVar + " to a static corral-warden, or leave it out to use the one in this program"
	if path, err = filepath.Abs(path); err != nil {
		return "", nil, corral.Errorf(corral.ErrUnavailable, hint, "cannot find the warden that $%s names: %w", EnvVar, err)
	}
	if data, err = os.ReadFile(path); err != nil {
		return "", nil, corral.Errorf(corral.ErrUnavailable, hint, "cannot read the warden that $%s names: %w", EnvVar, err)
	}
	if err := check(data, goarch); err != nil {
		return "", nil, corral.Errorf(corral.ErrUnavailable, hint, "%s, which $%s names, is not a warden for linux/%s: %w", path, EnvVar, goarch, err)
	}
	return path, data, nil
}
