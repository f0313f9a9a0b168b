// Package docker is the Docker engine as a engine.Engine, over its API (from
// engine 20.10, API 1.41, negotiated).
//
// Every container it makes is hardened the same way: all capabilities dropped,
// no new privileges, the seccomp profile of package seccomp, the engine's AppArmor
// profile, a read-only root, no network, private namespaces, no core dumps, and
// no log of its output. What a caller can choose is in engine.Spec.
package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
	units "github.com/docker/go-units"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/sandbox/boundary"
	"github.com/corral-exec/corral/sandbox/engine"
)

// Options of an Engine.
type Options struct {
	// Host is where the engine listens, such as unix:///var/run/docker.sock.
	// Empty: DOCKER_HOST (with DOCKER_TLS_VERIFY and DOCKER_CERT_PATH), else
	// the default socket.
	Host string
	// Name of the engine, if it is another one with Docker's API: "podman".
	Name string
}

// An Engine is a connection to a Docker engine.
type Engine struct {
	c      *client.Client
	agreed sync.Once // on a version of the API
	filled sync.Map  // names of volumes that have been looked at: see Fill

	mu    sync.Mutex
	name  string // which engine it is
	asked bool   // it said so itself

	// Where this program runs, as seen by this engine; see nested.
	looking turn.Lock
	looked  bool
	inside  string // its container; empty: it is in none
	shared  []engine.Mount
}

// New returns an Engine. It does not connect yet.
func New(o Options) (*Engine, error) {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if o.Host != "" {
		opts = append(opts, client.WithHost(o.Host))
	}
	c, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "DOCKER_HOST is like unix:///var/run/docker.sock or tcp://HOST:2376", "cannot use the Docker engine: %w", err)
	}
	return &Engine{c: c, name: cmp.Or(o.Name, "docker"), looking: turn.New()}, nil
}

// Images is the engine as package images needs it.
func (e *Engine) Images() images.Engine { return images.Docker(e.c) }

// Close lets go of idle connections.
func (e *Engine) Close() error { return e.c.Close() }

// Deadlines of single calls. An engine that hangs must not hang its users.
const (
	shortCall = 15 * time.Second // asking
	longCall  = 2 * time.Minute  // making and removing
)

// fail turns an error of the client into one of the contract.
func (e *Engine) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	host := e.c.DaemonHost()
	socket := strings.TrimPrefix(host, "unix://")
	switch {
	case errors.Is(err, os.ErrPermission) || strings.Contains(err.Error(), "permission denied while trying to connect"):
		return corral.Errorf(corral.ErrUnavailable, "let this user use it: usermod -aG docker USER, then log in again (that makes the user as powerful as root), or use a rootless engine",
			"cannot %s: no permission for the Docker engine at %s", what, socket)
	case client.IsErrConnectionFailed(err) && e.called() == podman:
		return corral.Errorf(corral.ErrUnavailable, "install Podman and start its socket (systemctl enable --now podman.socket, with --user for a user's own), or set CONTAINER_HOST to where it listens",
			"cannot %s: no Podman answers at %s", what, socket)
	case client.IsErrConnectionFailed(err):
		return corral.Errorf(corral.ErrUnavailable, "install Docker and start it (Debian: apt-get install docker.io), or set DOCKER_HOST to where it listens",
			"cannot %s: no Docker engine answers at %s", what, socket)
	case errors.Is(err, context.DeadlineExceeded):
		return corral.Errorf(corral.ErrUnavailable, "see whether `docker info` answers; restart the engine if it does not", "cannot %s: the Docker engine at %s did not answer in time", what, socket)
	}
	if errdefs.IsInvalidArgument(err) {
		return corral.Errorf(corral.ErrInvalid, "give what the engine asks for", "cannot %s: %w", what, err)
	}
	return corral.Errorf(corral.ErrUnavailable, "", "cannot %s: %w", what, err)
}

// called is which engine it is, as far as that is known.
func (e *Engine) called() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.name
}

// Info implements engine.Engine.
func (e *Engine) Info(ctx context.Context) (engine.Info, error) {
	if info, ok := e.remembered(); ok {
		return info, e.Ping(ctx)
	}
	info, err := e.ask(ctx)
	if err == nil {
		e.remember(info)
	}
	return info, err
}

func (e *Engine) ask(ctx context.Context) (engine.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	name, err := e.kind(ctx)
	if err != nil {
		return engine.Info{}, e.fail("ask which engine it is", err)
	}
	info, rootless, err := e.state(ctx, name)
	if err != nil {
		return engine.Info{}, e.fail("ask for the engine's state", err)
	}
	out := engine.Info{
		Name: name, ID: identity(name, info), Version: info.ServerVersion, Address: e.c.DaemonHost(), Arch: goarch(info.Architecture),
		CPUs:     info.NCPU,
		Rootless: rootless,
		Default:  info.DefaultRuntime, Security: info.SecurityOptions, Cgroup: info.CgroupVersion, Runc: info.RuncCommit.ID,
		// Docker Desktop listens on a local socket, but runs in a machine
		// of its own, into which no socket reaches.
		Local: strings.HasPrefix(e.c.DaemonHost(), "unix://") && !strings.Contains(info.OperatingSystem, "Docker Desktop"),
	}
	if out.Local {
		if out.Container, out.Shared, err = e.nested(ctx); err != nil {
			return engine.Info{}, err
		}
		out.Nested = out.Container != ""
		out.Local = !out.Nested
	}
	for runtime, r := range info.Runtimes {
		out.Runtimes = append(out.Runtimes, runtime)
		if name != podman && r.Path != "" { // Podman does not show them, nor do they show of a shim
			if out.RuntimeArgs == nil {
				out.RuntimeArgs = map[string][]string{}
			}
			out.RuntimeArgs[runtime] = r.Args
		}
	}
	for _, s := range info.SecurityOptions {
		if strings.Contains(s, "rootless") {
			out.Rootless = true
		}
		if strings.HasPrefix(s, "name=userns") {
			out.RemapUID, out.RemapGID = remapped(info.DockerRootDir)
		}
	}
	return out, nil
}

// identity is engine.Info.ID. Before version 23, the Docker engines of a machine have one ID
// together; what is in a directory of Docker's is one engine's. Podman says another ID each
// time.
func identity(name string, info system.Info) string {
	if name == podman {
		return info.DockerRootDir
	}
	return strings.TrimSpace(info.ID + " " + info.DockerRootDir)
}

// Near implements engine.NearEngine.
func (e *Engine) Near(ctx context.Context) (name string, local bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	if name, err = e.kind(ctx); err != nil {
		return "", false, e.fail("ask which engine it is", err)
	}
	if !strings.HasPrefix(e.c.DaemonHost(), "unix://") {
		return name, false, nil
	}
	inside, _, err := e.nested(ctx)
	return name, inside == "", err
}

// state is what the engine says of itself.
func (e *Engine) state(ctx context.Context, name string) (info system.Info, rootless bool, err error) {
	if name == podman {
		return e.podmanState(ctx)
	}
	info, err = e.c.Info(ctx)
	return info, false, err // which is a security option of Docker's
}

// Ping says whether the engine answers.
func (e *Engine) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	if e.hello(ctx) == nil {
		return nil
	}
	_, err := e.c.Ping(ctx) // whose errors say more
	return e.fail("ask whether the engine is there", err)
}

// Versions says of what the engine consists.
func (e *Engine) Versions(ctx context.Context) (engine.Versions, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	v, err := e.c.ServerVersion(ctx)
	if err != nil {
		return engine.Versions{}, e.fail("ask the engine for its version", err)
	}
	out := engine.Versions{API: v.APIVersion}
	for _, c := range v.Components {
		if c.Name == "runc" {
			out.Runc, out.RuncRevision = c.Version, c.Details["GitCommit"]
		}
	}
	return out, nil
}

// remapped are the first IDs of the range that an engine remaps users to, by the
// name that its directory has then: /var/lib/docker/100000.100000.
func remapped(root string) (uid, gid int) {
	u, g, _ := strings.Cut(path.Base(root), ".")
	uid, uerr := strconv.Atoi(u)
	gid, gerr := strconv.Atoi(g)
	if uerr != nil || gerr != nil {
		return 0, 0
	}
	return uid, gid
}

// goarch names an architecture, which the engine has from uname, as Go does.
func goarch(uname string) string {
	switch uname {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return uname
}

// Create implements engine.Engine.
func (e *Engine) Create(ctx context.Context, s engine.Spec) (_ string, err error) {
	ctx, cancel := context.WithTimeout(ctx, longCall)
	defer cancel()
	cfg, host, err := configs(s)
	if err != nil {
		return "", err
	}
	if err := e.checkNetwork(ctx, host.NetworkMode); err != nil {
		return "", err
	}
	if err := e.boundVolumes(ctx, s, host); err != nil {
		return "", err
	}
	name, err := e.kind(ctx)
	if err != nil {
		return "", e.fail("make the container "+s.Name, err)
	}
	if name == podman {
		remove, ferr := forPodman(cfg, host)
		defer func() { err = errors.Join(err, remove()) }()
		if ferr != nil {
			return "", fmt.Errorf("cannot write the seccomp profile of the container %s: %w", s.Name, ferr)
		}
	}
	made, err := e.c.ContainerCreate(ctx, cfg, host, nil, nil, s.Name)
	switch {
	case err == nil:
		return made.ID, nil
	case errdefs.IsNotFound(err):
		return "", fmt.Errorf("%w: %s", engine.ErrNoImage, s.Image)
	case errdefs.IsConflict(err):
		return "", fmt.Errorf("%w: %s", engine.ErrNameTaken, s.Name)
	case errdefs.IsInvalidArgument(err) && s.Runtime != "":
		return "", corral.Errorf(corral.ErrInvalid, "see `corral doctor` for the runtimes the engine has", "cannot make the container %s with the runtime %s: %w", s.Name, s.Runtime, err)
	}
	return "", e.fail("make the container "+s.Name, err)
}

// configs is a container in the API's terms.
func configs(s engine.Spec) (*container.Config, *container.HostConfig, error) {
	cfg := &container.Config{
		Image: s.Image, Entrypoint: s.Args, User: s.User, WorkingDir: s.Dir, Labels: s.Labels,
		OpenStdin: s.Stdio, AttachStdin: s.Stdio, AttachStdout: s.Stdio,
		Hostname: engine.Hostname(s.Name),
		// PID 1 is deaf to signals from inside, and has nothing to save.
		StopSignal:  "SIGKILL",
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	host := &container.HostConfig{
		NetworkMode:    container.NetworkMode(cmp.Or(s.Network, "none")),
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		Init:           new(bool), // no, whatever the engine does by default: PID 1 is ours
		IpcMode:        "private",
		CgroupnsMode:   container.CgroupnsModePrivate, // with version 1 the engine's own choice is the machine's
		LogConfig:      container.LogConfig{Type: "none"},
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Runtime:        s.Runtime,
		Tmpfs:          map[string]string{},
		Resources: container.Resources{
			Memory: s.Memory, NanoCPUs: int64(s.CPUs * 1e9),
		},
		ShmSize: s.Shm,
	}
	if s.Network == "" { // on one the engine names the address that it has there
		if s.Covers(engine.HostsFile) {
			cfg.NetworkDisabled = true // a namespace of the runtime's is made in a fraction of the time
		} else {
			host.ExtraHosts = []string{cfg.Hostname + ":127.0.0.1"}
		}
	}
	if s.Root {
		host.ReadonlyRootfs, host.CapAdd = false, engine.RootCapabilities
	}
	switch { // the API's is of both
	case s.Memory > 0 && s.Swap < 0:
		host.MemorySwap = -1
	case s.Memory > 0:
		host.MemorySwap = s.Memory + s.Swap
	}
	if s.Seccomp != nil {
		profile, err := json.Marshal(s.Seccomp)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot write the seccomp profile down: %w", err)
		}
		host.SecurityOpt = append(host.SecurityOpt, "seccomp="+string(profile))
	}
	if s.AppArmor != "" {
		host.SecurityOpt = append(host.SecurityOpt, "apparmor="+s.AppArmor)
	}
	if s.Pids > 0 {
		host.PidsLimit = &s.Pids
	}
	for _, l := range s.Rlimits {
		host.Ulimits = append(host.Ulimits, &units.Ulimit{Name: strings.ToLower(strings.TrimPrefix(l.Type, "RLIMIT_")), Soft: int64(l.Soft), Hard: int64(l.Hard)})
	}
	for _, t := range s.Tmpfs {
		host.Tmpfs[t.Target] = strings.Join(t.Options(s.User), ",")
	}
	for _, m := range s.Mounts {
		typ := mount.TypeBind
		if m.Volume {
			typ = mount.TypeVolume
		}
		mnt := mount.Mount{Type: typ, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
		if !m.Volume {
			mnt.BindOptions = &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: m.ReadOnly}
		}
		host.Mounts = append(host.Mounts, mnt)
	}
	return cfg, host, nil
}

// checkNetwork refuses a network that the engine does not have, or that is the
// machine's own under another name: an ID, for example.
func (e *Engine) checkNetwork(ctx context.Context, name container.NetworkMode) error {
	if name.IsNone() || name.IsBridge() {
		return nil
	}
	n, err := e.c.NetworkInspect(ctx, string(name), network.InspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return corral.Errorf(corral.ErrInvalid, "docker network ls says which there are", "the engine has no network %s", name)
	case err != nil:
		return e.fail("look at the network "+string(name), err)
	case n.Driver == "host" || n.Name != string(name):
		return &boundary.Refusal{Rule: boundary.NetworkHost, Subject: string(name), Why: "it is another name of the network " + n.Name + ", with the driver " + n.Driver, Fix: "name a network by its name"}
	}
	return nil
}

// Start implements engine.Engine.
func (e *Engine) Start(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, longCall)
	defer cancel()
	err := e.c.ContainerStart(ctx, id, container.StartOptions{})
	if errdefs.IsNotFound(err) && !strings.Contains(err.Error(), "executable file") {
		return fmt.Errorf("%w: %s", engine.ErrNoContainer, id)
	}
	return e.fail("start the container "+id, err)
}

// Inspect implements engine.Engine.
func (e *Engine) Inspect(ctx context.Context, id string) (engine.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	c, err := e.look(ctx, id)
	if err != nil {
		return engine.Container{}, err
	}
	return engine.Container{
		ID: c.ID, Name: strings.TrimPrefix(c.Name, "/"), Image: c.Config.Image, Labels: c.Config.Labels,
		Running: c.State.Running, Paused: c.State.Paused, PID: c.State.Pid, Exit: c.State.ExitCode, OOM: c.State.OOMKilled, Error: c.State.Error,
	}, nil
}

// Env implements engine.Engine. The container's own has more: Podman adds to it.
func (e *Engine) Env(ctx context.Context, id string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	c, err := e.look(ctx, id)
	if err != nil {
		return nil, err
	}
	image, err := e.c.ImageInspect(ctx, c.Image)
	if err != nil || image.Config == nil {
		return nil, e.fail("look at the image "+c.Config.Image, err)
	}
	return image.Config.Env, nil
}

// look is inspect, with the errors of an Engine.
func (e *Engine) look(ctx context.Context, id string) (container.InspectResponse, error) {
	c, err := e.inspect(ctx, id)
	if errdefs.IsNotFound(err) {
		return c, fmt.Errorf("%w: %s", engine.ErrNoContainer, id)
	}
	return c, e.fail("look at the container "+id, err)
}

// inspect describes a container, with its State and Config. While the process of one ends,
// Podman fails to read its cgroup, which is over a moment later.
func (e *Engine) inspect(ctx context.Context, id string) (container.InspectResponse, error) {
	for tries := 50; ; tries-- {
		c, err := e.c.ContainerInspect(ctx, id)
		if err == nil && (c.ContainerJSONBase == nil || c.State == nil || c.Config == nil) {
			return c, errors.New("what answers is no container engine")
		}
		if err == nil || tries == 0 || !strings.Contains(err.Error(), syscall.ESRCH.Error()) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return c, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// List implements engine.Engine.
func (e *Engine) List(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	f := filters.NewArgs()
	for k, v := range labels {
		f.Add("label", k+"="+v)
	}
	list, err := e.c.ContainerList(ctx, container.ListOptions{All: true, Filters: f})
	if err != nil {
		return nil, e.fail("list containers", err)
	}
	var out []engine.Container
	for _, c := range list {
		name := ""
		if len(c.Names) > 0 {
			name = strings.TrimPrefix(c.Names[0], "/")
		}
		out = append(out, engine.Container{ID: c.ID, Name: name, Image: c.Image, Labels: c.Labels, Running: c.State == container.StateRunning || c.State == container.StatePaused, Paused: c.State == container.StatePaused})
	}
	return out, nil
}

// Attach implements engine.Engine.
func (e *Engine) Attach(ctx context.Context, id string) (io.ReadWriteCloser, error) {
	dial, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	h, err := hijack(dial, func(ctx context.Context) (types.HijackedResponse, error) {
		return e.c.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true})
	})
	if err != nil {
		return nil, e.fail("attach to the container "+id, err)
	}
	return newAttached(h), nil
}
