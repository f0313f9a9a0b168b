//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docker/docker/client"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
	"github.com/corral-exec/corral/sandbox/engine"
)

// Names of places, in tables and checks.
const (
	hostLocal     = "local os/exec"
	hostWarden    = "hostexec, warden"
	hostInProcess = "hostexec, in process"
	hostEnforced  = "hostexec, enforced"
	hostFiles     = "hostexec, files enforced alone"
	boxLocal      = "local os/exec, chroot"
	boxFDs        = "sandbox, fds"
	boxFrames     = "sandbox, frames"
	boxEngine     = "docker exec"
	boxHTTP       = "sandbox, gateway's HTTP"
	nodeTLS       = "node, TLS"
	sshName       = "OpenSSH"
	coldSandbox   = "new sandbox"
	warmSandbox   = "sandbox from the pool"
	coldEngine    = "docker run"
	coldTask      = "containerd, create and start"
)

// boxUser runs everything in a sandbox, and what that is compared to.
const (
	boxID   = 65534
	boxUser = "65534:65534"
)

// A site is every place jobs run, and what has to be removed afterwards.
type site struct {
	image      string
	self       string // this program
	wardenPath string
	dir        string // of all state
	engine     *docker.Engine
	api        *client.Client
	places     map[string]place
	wardens    map[string]int   // process IDs of wardens, by name of place
	sums       map[int64][]byte // of what is printed, by its size
	gateway    *gateway
	closers    []io.Closer
	pool       *sandbox.Pool // nil until it is needed
}

// newSite makes a sandbox for each driver and starts the wardens. On error
// everything is removed.
func newSite(ctx context.Context, o options) (_ *site, err error) {
	if os.Geteuid() != 0 {
		return nil, corral.Errorf(corral.ErrInvalid, "run it as root", "cannot chroot into a sandbox's file system for comparison as user %d", os.Geteuid())
	}
	s := &site{image: o.image, wardenPath: o.warden, places: map[string]place{}, wardens: map[string]int{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp(o.state, "corral-bench-"); err != nil {
		return nil, fmt.Errorf("cannot make a directory for logs: %w", err)
	}
	if s.engine, err = docker.New(docker.Options{}); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.engine)
	if s.api, err = client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation()); err != nil {
		return nil, fmt.Errorf("cannot use the Docker engine: %w", err)
	}
	s.closers = append(s.closers, s.api)
	store := images.Store{Engine: s.engine.Images()}
	if _, err := store.Ensure(ctx, o.image, nil); err != nil {
		return nil, err
	}
	if err := s.addHost(ctx); err != nil {
		return nil, err
	}
	if err := s.addSandboxes(ctx); err != nil {
		return nil, err
	}
	if err := s.addGateway(ctx, o.corral); err != nil {
		return nil, err
	}
	if err := s.addPorts(ctx, o.corral, o.volume()); err != nil {
		return nil, err
	}
	s.addCLI(o.corral)
	s.add(place{name: coldSandbox, run: s.cold})
	s.add(place{name: warmSandbox, run: s.warm})
	s.add(place{name: coldEngine, run: engineRun{s.api, o.image, boxUser}.run})
	s.addContainerd(ctx, o.containerd)
	s.addGVisor(ctx)
	if o.envd != "" {
		s.addEnvd(ctx, o.envd)
	}
	if err := s.addDebian(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *site) add(p place) { s.places[p.name] = p }

func (s *site) addHost(ctx context.Context) error {
	env := []string{"HOME=" + s.dir, "PATH=/usr/local/bin:/usr/bin:/bin"}
	s.add(place{name: hostLocal, run: local{env: env, dir: s.dir}.run})
	for _, p := range []struct {
		name string
		cfg  hostexec.Config
	}{
		{hostWarden, hostexec.Config{WardenPath: s.wardenPath}},
		{hostInProcess, hostexec.Config{InProcess: true}},
	} {
		p.cfg.StateDir, p.cfg.Workspace, p.cfg.Environ = filepath.Join(s.dir, p.name), s.dir, env
		ex, err := hostexec.New(p.cfg)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, ex)
		s.add(place{name: p.name, run: ours{ex: ex, login: true}.run})
		if p.cfg.InProcess {
			continue
		}
		d := domain(s.dir)
		s.add(place{name: hostEnforced, run: ours{ex: ex, login: true, domain: d}.run})
		s.add(place{name: hostFiles, run: ours{ex: ex, login: true, domain: &corral.Domain{AnyProgram: true, Writable: d.Writable}}.run})
		// A command's parent is its warden.
		r, err := runner.Run(ctx, ex, corral.Command{Args: []string{"/bin/sh", "-c", "echo $PPID"}}, runner.Options{})
		if err != nil {
			return err
		}
		if s.wardens[p.name], err = strconv.Atoi(strings.TrimSpace(r.Stdout.String())); err != nil {
			return fmt.Errorf("cannot tell which process the warden is: %w", err)
		}
	}
	s.addSSH(ctx)
	return s.addNode(ctx, env)
}

// domain is what the kernel keeps a command to that rules allow, and that runs no
// other program.
func domain(workspace string) *corral.Domain {
	return &corral.Domain{
		Programs: []string{"/usr/bin/true"}, Loaders: []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"},
		Writable: []string{workspace, "/tmp", "/var/tmp"}, Required: true,
	}
}

// addSSH adds OpenSSH, which is there when it is used: it need not be installed
// for anything else.
func (s *site) addSSH(ctx context.Context) {
	start := sync.OnceValues(func() (*openSSH, error) {
		o, err := startSSH(ctx, filepath.Join(s.dir, "ssh"))
		if err == nil {
			s.closers = append(s.closers, o)
		}
		return o, err
	})
	s.add(place{name: sshName, run: func(ctx context.Context, j job) (time.Duration, error) {
		o, err := start()
		if err != nil {
			return 0, err
		}
		return o.run(ctx, j)
	}})
}

func (s *site) sandbox(name string, driver sandbox.Driver) (*sandbox.Executor, error) {
	return sandbox.New(s.config(name, driver))
}

func (s *site) config(name string, driver sandbox.Driver) sandbox.Config {
	return sandbox.Config{
		Engine: s.engine, StateDir: filepath.Join(s.dir, "sandbox"), Name: name, Image: s.image, Driver: driver,
		Isolation: sandbox.Isolation{User: boxUser}, Ephemeral: true, WardenPath: s.wardenPath,
		Resources: sandbox.Resources{CPUs: -1}, // no limit: the compared places have all processors
	}
}

func (s *site) addSandboxes(ctx context.Context) error {
	for _, p := range []struct {
		name   string
		driver sandbox.Driver
	}{{boxFDs, sandbox.DriverFDs}, {boxFrames, sandbox.DriverFrames}} {
		ex, err := s.sandbox(string(p.driver), p.driver)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, ex)
		run := ours{ex: ex}.run
		if _, err := run(ctx, job{shell: "true"}); err != nil { // makes the container
			return err
		}
		status, err := ex.Status(ctx)
		if err != nil {
			return err
		}
		s.add(place{name: p.name, run: run, slowData: p.driver == sandbox.DriverFrames})
		s.wardens[p.name] = status.Container.PID
		if p.driver == sandbox.DriverFDs {
			s.addReferences(status.Container)
		}
	}
	return nil
}

// addReferences adds what sandboxes are compared to, on the very container of
// one: its root is entered through its init, so that every mount is there.
func (s *site) addReferences(c engine.Container) {
	s.add(place{name: boxEngine, slowStart: true, slowData: true, run: engineExec{s.api, c.ID, boxUser}.run})
	s.add(place{name: boxLocal, run: local{
		root: "/proc/" + strconv.Itoa(c.PID) + "/root",
		user: &syscall.Credential{Uid: boxID, Gid: boxID},
		env:  []string{"HOME=" + sandbox.Workdir, "PATH=/usr/local/bin:/usr/bin:/bin"},
		dir:  sandbox.Workdir,
	}.run})
}

// addContainerd adds what containerd does alone, which is asked for when it is
// used: it need not be there for anything else.
func (s *site) addContainerd(ctx context.Context, address string) {
	start := sync.OnceValues(func() (*containerdRun, error) {
		r, err := newContainerdRun(ctx, address, s.image)
		if err == nil {
			s.closers = append(s.closers, r)
		}
		return r, err
	})
	s.add(place{name: coldTask, run: func(ctx context.Context, j job) (time.Duration, error) {
		r, err := start()
		if err != nil {
			return 0, err
		}
		return r.run(ctx, j)
	}})
}

// cold runs a job in a sandbox made for it. Removing it is not measured.
func (s *site) cold(ctx context.Context, j job) (took time.Duration, err error) {
	start := time.Now()
	ex, err := s.sandbox("cold", sandbox.DriverFDs)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ex.Close()) }()
	p, err := ex.Start(context.WithoutCancel(ctx), corral.Command{Shell: j.shell})
	if err != nil {
		return 0, err
	}
	exit, err := p.Wait(ctx)
	if err == nil && !exit.Success() {
		err = fmt.Errorf("%v: %v", j, exit)
	}
	return time.Since(start), err
}

// poolSize is how many first commands a full pool is measured with.
const poolSize = 100

// fillPool makes the pool, and waits until n containers are ready.
func (s *site) fillPool(ctx context.Context, n int) error {
	if s.pool == nil {
		pool, err := sandbox.NewPool(s.config("pool", sandbox.DriverFDs), n)
		if err != nil {
			return err
		}
		s.pool = pool
		s.closers = append(s.closers, pool)
	} else if err := s.pool.Configure(s.config("pool", sandbox.DriverFDs), n); err != nil {
		return err
	}
	for s.pool.Ready() != n {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d containers of the pool are ready, and not %d: %w", s.pool.Ready(), n, ctx.Err())
		}
	}
	return nil
}

// warm runs a job in a sandbox whose container comes from a full pool.
func (s *site) warm(ctx context.Context, j job) (took time.Duration, err error) {
	if err := s.fillPool(ctx, 4); err != nil {
		return 0, err
	}
	took, ex, err := s.claim(ctx, j)
	if ex != nil {
		err = errors.Join(err, ex.Close())
	}
	return took, err
}

// claim runs a job in a new sandbox with a container from the pool. The caller
// closes it, which removes it.
func (s *site) claim(ctx context.Context, j job) (took time.Duration, ex *sandbox.Executor, err error) {
	start := time.Now()
	cfg := s.config("warm-"+corral.NewID()[:8], sandbox.DriverFDs)
	cfg.Pool = s.pool
	if ex, err = sandbox.New(cfg); err != nil {
		return 0, nil, err
	}
	p, err := ex.Start(context.WithoutCancel(ctx), corral.Command{Shell: j.shell})
	if err != nil {
		return 0, ex, err
	}
	exit, err := p.Wait(ctx)
	if err == nil && !exit.Success() {
		err = fmt.Errorf("%v: %v", j, exit)
	}
	return time.Since(start), ex, err
}

// burst is how long it takes until as many first commands as the full pool has
// containers have ended, in ms.
func (s *site) burst(n int) func(context.Context, place) (float64, error) {
	return func(ctx context.Context, _ place) (float64, error) {
		if err := s.fillPool(ctx, n); err != nil {
			return 0, err
		}
		boxes, errs := make([]*sandbox.Executor, n), make([]error, n)
		start := time.Now()
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { _, boxes[i], errs[i] = s.claim(ctx, job{shell: "true"}) })
		}
		all.Wait()
		took := time.Since(start)
		for _, ex := range boxes {
			if ex != nil {
				errs = append(errs, ex.Close())
			}
		}
		return float64(took) / float64(time.Millisecond), errors.Join(errs...)
	}
}

// Close removes everything.
func (s *site) Close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i].Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
