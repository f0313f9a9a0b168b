//go:build linux

package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/sandbox/engine"
)

// Files of a container in its directory on this machine.
const (
	stdinPipe    = "stdin"
	stdoutPipe   = "stdout"
	hostnameFile = "hostname"
)

// labelStdio marks a container whose standard streams are pipes.
const labelStdio = "corral.containerd.stdio"

// pipes are a container's standard streams while it is started. Each is held
// open at both ends, because the shim waits for the other end of what it opens;
// then it has both itself.
type pipes struct {
	config cio.Config
	held   []*os.File
}

// makeFiles makes a container's files, which are gone after a reboot.
func makeFiles(c containers.Container) (_ *pipes, err error) {
	dir := c.Labels[labelDir]
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the container %s names no directory of its own on this machine", c.ID)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// The container's user reads it, and can be any.
	name := filepath.Join(dir, hostnameFile)
	if err := errors.Join(os.WriteFile(name, []byte(engine.Hostname(cmp.Or(c.Labels[labelName], c.ID))+"\n"), 0o644), os.Chmod(name, 0o644)); err != nil { // whatever the umask is
		return nil, err
	}
	p := &pipes{}
	if c.Labels[labelStdio] == "" {
		return p, nil // /dev/null
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	p.config = cio.Config{Stdin: filepath.Join(dir, stdinPipe), Stdout: filepath.Join(dir, stdoutPipe), Stderr: os.DevNull}
	for _, file := range []string{p.config.Stdin, p.config.Stdout} {
		// Not one that has what another life of the container left.
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := unix.Mkfifo(file, 0o600); err != nil {
			return nil, fmt.Errorf("cannot make the pipe %s: %w", file, err)
		}
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		p.held = append(p.held, f)
	}
	return p, nil
}

// removeFiles removes them.
func removeFiles(c containers.Container) error {
	dir := c.Labels[labelDir]
	if !filepath.IsAbs(dir) || filepath.Base(dir) != c.ID {
		return nil // not made by this package
	}
	return os.RemoveAll(dir)
}

// Config implements cio.IO.
func (p *pipes) Config() cio.Config { return p.config }

// Cancel implements cio.IO.
func (p *pipes) Cancel() {}

// Wait implements cio.IO.
func (p *pipes) Wait() {}

// Close implements cio.IO.
func (p *pipes) Close() error {
	var errs []error
	for _, f := range p.held {
		errs = append(errs, f.Close())
	}
	p.held = nil
	return errors.Join(errs...)
}

// Attach implements engine.Engine. The container's output is one reader's: it
// is for the caller to see that there is no other.
func (e *Engine) Attach(ctx context.Context, id string) (io.ReadWriteCloser, error) {
	ctx, cancel := e.call(ctx, shortCall)
	defer cancel()
	id = identifier(id)
	c, err := e.container(ctx, id)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (io.ReadWriteCloser, error) {
		return nil, e.fail("attach to the container "+id, err)
	}
	dir := c.Labels[labelDir]
	if c.Labels[labelStdio] == "" || !filepath.IsAbs(dir) {
		return fail(errors.New("it was made without standard streams to attach to"))
	}
	// Without the shim at the other end there is no reader.
	in, err := os.OpenFile(filepath.Join(dir, stdinPipe), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w that runs: %s", engine.ErrNoContainer, id)
	}
	if err != nil {
		return fail(err)
	}
	out, err := os.OpenFile(filepath.Join(dir, stdoutPipe), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fail(errors.Join(err, in.Close()))
	}
	return &attached{in: in, out: out}, nil
}

// attached is a container's standard streams. Closing it ends neither.
type attached struct{ in, out *os.File }

func (a *attached) Read(p []byte) (int, error)  { return a.out.Read(p) }
func (a *attached) Write(p []byte) (int, error) { return a.in.Write(p) }
func (a *attached) Close() error                { return errors.Join(a.in.Close(), a.out.Close()) }
