// Package wardenbin finds the corral-warden binary for an architecture.
//
// The warden is a program of its own: PID 1 of a sandbox container, keeper of
// host commands. Whoever starts one needs it as a file ([Find]) or, for an
// engine on another machine, as bytes to copy there ([Bytes]). A corral that
// was built by make carries the wardens for every supported architecture in
// itself; one that was built by a plain go build or go install carries none,
// and then the binary must lie beside it or on PATH.
//
// The first of these that exists is used:
//
//  1. the file $CORRAL_WARDEN names
//  2. corral-warden-<arch>, and for this machine's own architecture
//     corral-warden, in the directory of the running executable
//  3. the one embedded in this executable
//  4. the same names as in 2 on PATH
//
// A file that exists and cannot be a warden (a dynamically linked program, a
// different architecture) is an error, never skipped: falling back in silence
// would run something else than what was installed.
//
// The package does not build, start or speak to a warden.
package wardenbin

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/corral-exec/corral"
)

// EnvVar names the file to use before any other.
const EnvVar = "CORRAL_WARDEN"

const name = "corral-warden"

//go:embed bin
var embedded embed.FS

// A finder holds what the search looks at, so that tests can replace it.
type finder struct {
	env    string // value of EnvVar
	exeDir string // directory of the running executable; empty if not known
	path   func(name string) (string, error)
	files  fs.FS // embedded wardens, as corral-warden-<arch>
}

func system() (finder, error) {
	files, err := fs.Sub(embedded, "bin")
	if err != nil {
		return finder{}, err
	}
	f := finder{env: os.Getenv(EnvVar), path: exec.LookPath, files: files}
	// Without /proc the executable's place is not known; the other places
	// still are.
	if exe, err := os.Executable(); err == nil {
		f.exeDir = filepath.Dir(exe)
	}
	return f, nil
}

// Find returns the path of a warden for goarch (a GOARCH value). An embedded
// one is written into stateDir first, once for each content, under a name that
// holds its hash; stateDir is created if it does not exist.
func Find(stateDir, goarch string) (string, error) {
	f, err := system()
	if err != nil {
		return "", err
	}
	return f.find(stateDir, goarch)
}

// Bytes returns the content of the warden that Find would return.
func Bytes(goarch string) ([]byte, error) {
	f, err := system()
	if err != nil {
		return nil, err
	}
	w, err := f.search(goarch)
	return w.data, err
}

func (f finder) find(stateDir, goarch string) (string, error) {
	w, err := f.search(goarch)
	if err != nil || w.path != "" {
		return w.path, err
	}
	return extract(stateDir, w.data)
}

// A warden is one that was found. The path is empty if it is embedded.
type warden struct {
	path string
	data []byte
}

func (f finder) search(goarch string) (warden, error) {
	if _, ok := machines[goarch]; !ok {
		return warden{}, corral.Errorf(corral.ErrInvalid, "use one of "+supported(), "there is no warden for the architecture %q", goarch)
	}
	if f.env != "" {
		return load(f.env, goarch)
	}
	names := []string{name + "-" + goarch}
	if goarch == runtime.GOARCH {
		names = append(names, name)
	}
	if f.exeDir != "" {
		for _, n := range names {
			w, err := load(filepath.Join(f.exeDir, n), goarch)
			if !errors.Is(err, fs.ErrNotExist) {
				return w, err
			}
		}
	}
	data, err := fs.ReadFile(f.files, names[0])
	switch {
	case err == nil:
		return warden{data: data}, checkFile(names[0]+" in this executable", data, goarch)
	case !errors.Is(err, fs.ErrNotExist):
		return warden{}, corral.Errorf(corral.ErrUnavailable, hint, "cannot read the embedded warden: %w", err)
	}
	for _, n := range names {
		p, err := f.path(n)
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		if err != nil {
			return warden{}, corral.Errorf(corral.ErrUnavailable, hint, "cannot look for the warden on PATH: %w", err)
		}
		return load(p, goarch)
	}
	return warden{}, corral.Errorf(corral.ErrUnavailable, hint, "no %s for linux/%s: none in $%s, beside this program, inside it or on PATH", name, goarch, EnvVar)
}

const hint = "build Corral with make build, or set " + EnvVar + " to a static corral-warden"

// load reads and checks the warden in a file. Its error is fs.ErrNotExist
// only if there is no such file.
func load(path, goarch string) (warden, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return warden{}, corral.Errorf(corral.ErrUnavailable, hint, "cannot tell where the warden is: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return warden{}, corral.Errorf(corral.ErrUnavailable, hint, "cannot read the warden: %w", err)
	}
	if err := checkFile(path, data, goarch); err != nil {
		return warden{}, err
	}
	return warden{path: path, data: data}, nil
}

func checkFile(what string, data []byte, goarch string) error {
	if err := check(data, goarch); err != nil {
		return corral.Errorf(corral.ErrUnavailable, hint, "%s is not a warden for linux/%s: %w", what, goarch, err)
	}
	return nil
}
