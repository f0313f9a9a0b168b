//go:build linux

package containerd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/apparmor"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/sandbox/engine"
)

// An Engine is a connection to containerd.
type Engine struct {
	c       *client.Client
	address string // without "unix://"
	space   string
	dir     string
}

// New returns an Engine. It does not connect yet.
func New(o Options) (*Engine, error) {
	o = o.complete(os.Getenv)
	if !filepath.IsAbs(o.Address) || !filepath.IsAbs(o.Dir) {
		return nil, corral.Errorf(corral.ErrInvalid, "the address is a socket like "+DefaultAddress+", the directory an absolute one",
			"cannot use containerd at %q with the directory %q", o.Address, o.Dir)
	}
	connect := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: shortCall}
	c, err := client.New(o.Address, client.WithDefaultNamespace(o.Namespace), client.WithDefaultRuntime(shimRuntime),
		// Its own options wait for the engine, and dial a socket that is not
		// there until they give up.
		client.WithDialOpts([]grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(connect), grpc.WithContextDialer(dial),
		}))
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "the address is a socket like "+DefaultAddress, "cannot use containerd at %s: %w", o.Address, err)
	}
	return &Engine{c: c, address: o.Address, space: o.Namespace, dir: o.Dir}, nil
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(address, "unix://"))
}

// Address is containerd's socket.
func (e *Engine) Address() string { return e.address }

// Close lets go of the connection.
func (e *Engine) Close() error { return e.c.Close() }

// Deadlines of single calls. An engine that hangs must not hang its users.
const (
	shortCall = 15 * time.Second // asking
	longCall  = 2 * time.Minute  // making and removing
)

// call is a context for requests of at most limit.
func (e *Engine) call(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.in(ctx), limit)
}

// in is a context for requests to the namespace.
func (e *Engine) in(ctx context.Context) context.Context {
	return log.WithLogger(namespaces.WithNamespace(ctx, e.space), silent)
}

// silent keeps the client from writing to our standard error: what matters it
// returns.
var silent = func() *log.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}()

// fail turns an error of the client into one of the contract.
func (e *Engine) fail(what string, err error) error {
	var known *corral.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, context.DeadlineExceeded) || errdefs.IsDeadlineExceeded(err):
		return corral.Errorf(corral.ErrUnavailable, "see whether `ctr version` answers; restart containerd if it does not", "cannot %s: containerd at %s did not answer in time", what, e.address)
	case errors.Is(err, context.Canceled) || errdefs.IsCanceled(err):
		return fmt.Errorf("cannot %s: %w", what, context.Canceled)
	case strings.Contains(err.Error(), "permission denied") && errdefs.IsUnavailable(err):
		return corral.Errorf(corral.ErrUnavailable, "run this as root (users of containerd are root); or use a rootless Docker or Podman", "cannot %s: no permission for containerd at %s", what, e.address)
	case errdefs.IsUnavailable(err):
		return corral.Errorf(corral.ErrUnavailable, "install containerd and start it (Debian: apt-get install containerd), or set CONTAINERD_ADDRESS to its socket", "cannot %s: no containerd answers at %s", what, e.address)
	case errdefs.IsInvalidArgument(err):
		return corral.Errorf(corral.ErrInvalid, "give what the engine asks for", "cannot %s: %w", what, err)
	}
	return corral.Errorf(corral.ErrUnavailable, "", "cannot %s: %w", what, err)
}

// Info implements engine.Engine.
func (e *Engine) Info(ctx context.Context) (engine.Info, error) {
	ctx, cancel := e.call(ctx, shortCall)
	defer cancel()
	v, err := e.c.Version(ctx)
	if err != nil {
		return engine.Info{}, e.fail("ask for the engine's state", native(err))
	}
	server, err := e.c.Server(ctx)
	if err = native(err); err != nil && !errdefs.IsNotImplemented(err) { // else that part of containerd is switched off
		return engine.Info{}, e.fail("ask for the engine's ID", err)
	}
	info := engine.Info{
		Name: "containerd", ID: server.UUID + " " + e.space, Version: v.Version, Address: "unix://" + e.address, Arch: localArch, CPUs: runtime.NumCPU(), Local: true,
		Runtimes: installedRuntimes(), Default: defaultRuntime, Cgroup: cgroupVersion(),
	}
	if seccompSupported() {
		info.Security = append(info.Security, "name=seccomp,profile=default")
	}
	if apparmor.HostSupports() {
		info.Security = append(info.Security, "name=apparmor")
	}
	return info, nil
}

// Ping says whether the engine answers.
func (e *Engine) Ping(ctx context.Context) error {
	ctx, cancel := e.call(ctx, shortCall)
	defer cancel()
	_, err := e.c.Version(ctx)
	return e.fail("ask whether the engine is there", native(err))
}

// Versions says of what the engine consists.
func (e *Engine) Versions(ctx context.Context) (engine.Versions, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	runc, err := findProgram(defaultRuntime)
	if err != nil {
		return engine.Versions{}, nil // there is none, or where only containerd finds it
	}
	out, err := exec.CommandContext(ctx, runc, "--version").Output()
	if err != nil {
		return engine.Versions{}, e.fail("ask runc for its version", err)
	}
	// runc version 1.1.5+ds1
	// commit: 1.1.5+ds1-1+deb12u1
	var v engine.Versions
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if version, found := strings.CutPrefix(line, "runc version "); found {
			v.Runc = version
		}
		if commit, found := strings.CutPrefix(line, "commit: "); found {
			v.RuncRevision = commit
		}
	}
	return v, nil
}

func seccompSupported() bool {
	_, err := os.Stat("/proc/sys/kernel/seccomp/actions_avail")
	return err == nil
}

func cgroupVersion() string {
	var st unix.Statfs_t
	if err := unix.Statfs(cgroupRoot, &st); err != nil {
		return ""
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		return "2"
	}
	return "1"
}

// identifiers are those that containerd takes; see its package identifiers.
var identifiers = lazy.Regexp(`^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$`)

// maxIdentifier is the longest.
const maxIdentifier = 76

// identifier is the ID of the container called name: that name, so that of two
// with one name the second is refused, or where containerd would not take it,
// one made of it. The identifier of an identifier is itself.
func identifier(name string) string {
	if len(name) <= maxIdentifier && identifiers().MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	plain := strings.Trim(others().ReplaceAllString(name, "-"), "-")
	return fmt.Sprintf("%.*s-%x", maxIdentifier-20, cmp.Or(plain, "x"), sum[:8])
}

var others = lazy.Regexp(`[^A-Za-z0-9]+`)

// Labels of containers that are this package's own.
const (
	labelDir  = "corral.containerd.dir"  // where its files on this machine are
	labelName = "corral.containerd.name" // what it was called
)

// Inspect implements engine.Engine.
func (e *Engine) Inspect(ctx context.Context, id string) (engine.Container, error) {
	ctx, cancel := e.call(ctx, shortCall)
	defer cancel()
	id = identifier(id)
	c, err := e.container(ctx, id)
	if err != nil {
		return engine.Container{}, err
	}
	r, err := e.c.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: id})
	if err = native(err); err != nil && !errdefs.IsNotFound(err) {
		return engine.Container{}, e.fail("look at the container "+id, err)
	}
	if p := r.GetProcess(); p != nil && p.Status == task.Status_UNKNOWN {
		return engine.Container{}, corral.Errorf(corral.ErrUnavailable, "try again", "cannot look at the container %s: %s", id, silentShim)
	}
	return e.describe(c, r.GetProcess()), nil
}

// Env implements engine.Engine.
func (e *Engine) Env(ctx context.Context, id string) ([]string, error) {
	ctx, cancel := e.call(ctx, shortCall)
	defer cancel()
	c, err := e.container(ctx, identifier(id))
	if err != nil {
		return nil, err
	}
	var spec struct{ Process struct{ Env []string } }
	if err := json.Unmarshal(c.Spec.GetValue(), &spec); err != nil {
		return nil, e.fail("look at the container "+id, err)
	}
	return spec.Process.Env, nil
}

// container is the record of a container; engine.ErrNoContainer without one.
func (e *Engine) container(ctx context.Context, id string) (containers.Container, error) {
	c, err := e.c.ContainerService().Get(ctx, id)
	if errdefs.IsNotFound(err) {
		return c, fmt.Errorf("%w: %s", engine.ErrNoContainer, id)
	}
	return c, e.fail("look at the container "+id, err)
}

// silentShim is why containerd does not know whether a container runs. It waits two
// seconds for a shim, and then takes it for one that says nothing.
const silentShim = "its shim does not answer"

// describe is a container with its task, which may be nil. If its shim does not say
// whether it runs, it counts as running.
func (e *Engine) describe(c containers.Container, p *task.Process) engine.Container {
	out := engine.Container{ID: c.ID, Name: cmp.Or(c.Labels[labelName], c.ID), Image: familiar(c.Image), Labels: c.Labels}
	if p == nil {
		out.Error = "it was not started, or its shim has gone"
		return out
	}
	switch p.Status {
	case task.Status_RUNNING, task.Status_PAUSED, task.Status_PAUSING:
		out.Running, out.Paused, out.PID = true, p.Status != task.Status_RUNNING, int(p.Pid)
	case task.Status_UNKNOWN:
		out.Running, out.Error = true, silentShim
	case task.Status_STOPPED:
		out.Exit = int(p.ExitStatus)
		out.OOM = oomKills(e.cgroup(c.ID)) > 0
	}
	return out
}

// List implements engine.Engine.
func (e *Engine) List(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	ctx, cancel := e.call(ctx, shortCall)
	defer cancel()
	var filter []string
	for k, v := range labels {
		filter = append(filter, fmt.Sprintf("labels.%q==%q", k, v))
	}
	var filters []string
	if len(filter) > 0 {
		slices.Sort(filter)
		filters = []string{strings.Join(filter, ",")}
	}
	list, err := e.c.ContainerService().List(ctx, filters...)
	if err != nil {
		return nil, e.fail("list containers", err)
	}
	r, err := e.c.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return nil, e.fail("list tasks", native(err))
	}
	running := map[string]*task.Process{}
	for _, p := range r.Tasks {
		running[cmp.Or(p.ContainerID, p.ID)] = p
	}
	var out []engine.Container
	for _, c := range list {
		out = append(out, e.describe(c, running[c.ID]))
	}
	return out, nil
}

// native is the error that one of grpc stands for.
func native(err error) error {
	if err == nil {
		return nil
	}
	return errgrpc.ToNative(err)
}
