package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/secrets"
	"github.com/corral-exec/corral/sandbox/users"
)

// Driver is a way to reach the inside of a container.
type Driver string

const (
	DriverAuto   Driver = "auto"   // the first of the others that works
	DriverFDs    Driver = "fds"    // a socket that passes descriptors
	DriverFrames Driver = "frames" // messages over attached standard streams
	DriverExec   Driver = "exec"   // the engine's exec API
)

// Access is what a sandbox can do with the workspace.
type Access string

const (
	AccessNone      Access = "none" // it has a private, empty one of its own
	AccessReadOnly  Access = "ro"
	AccessReadWrite Access = "rw"
)

// Medium is where a private workspace is.
type Medium string

const (
	MediumDisk   Medium = "disk"   // in the state directory, as long as the sandbox
	MediumMemory Medium = "memory" // in the container, and gone with it
)

// Config of an Executor. Engine and StateDir are required.
type Config struct {
	Engine engine.Engine
	// StateDir holds logs, records, sockets and private workspaces.
	StateDir string
	// Name tells sandboxes of one StateDir apart: an agent, a session.
	// Empty: "default".
	Name string
	// Owner is the agent that the sandbox belongs to, and Key what it was named
	// after. They are only remembered.
	Owner, Key string

	Image   string // empty: images.Default
	Runtime string // an OCI runtime the engine knows, such as runsc; empty: its default
	Driver  Driver // empty: auto

	Workspace   Workspace
	Environment Environment
	Resources   Resources
	Isolation   Isolation
	Mounts      Mounts

	// SetupCommand is shell text that is run in every new container, as commands
	// are, before the first of them gets to it. If it fails the container is not
	// used. See SetupLimit, Lives and SetupLog.
	SetupCommand string

	// Lifetime is how long commands go to a container, from when it became
	// the sandbox's: the next gets a new one. What still runs there is ended by
	// Prune. 0: for ever.
	Lifetime time.Duration

	// Ephemeral removes the container with Close. Otherwise it stays, for
	// the next life of this program to use.
	Ephemeral bool

	// Pool has containers ready for sandboxes that have none; it is over the
	// same engine. Nil: there is none.
	Pool *Pool

	// WardenPath is the corral-warden program for the engine's machine. Empty:
	// the one that $CORRAL_WARDEN names, else the one inside this program.
	WardenPath string

	// EnsureImage gets an image that is not there, which may take as long as
	// the context of the first Start allows. Nil: a missing image is an error.
	EnsureImage func(ctx context.Context, image string) error

	// Admit says why the sandbox may not have a container now, which is asked before one
	// is made or taken from the pool. noted is called when [Sandboxes] has it, or there
	// is none. Nil: it may.
	Admit func(ctx context.Context, want Limits) (noted func(), err error)

	Log *slog.Logger

	allowed // what complete makes of it
}

// Workspace is the directory that commands work on.
type Workspace struct {
	// Dir is the directory of this machine, used as Access (empty: none) allows. In
	// the container it is /workspace.
	Dir    string
	Access Access
	// Size bounds a private workspace, in bytes, and with them how many files it may
	// have. 0 is no limit on the disk, and 512 MiB in memory; negative: no limit. On
	// the disk it is a file system of its own, which takes root and an engine of this
	// machine (see checkSize), and of a size that it keeps.
	Size   int64
	Medium Medium // empty: disk
	// Home is where the workspace is in the container, in place of Workdir:
	// /home/NAME. Commands then run as a user of that name, where the container has
	// a user of its own. Empty: Workdir.
	Home string
}

// Environment is what commands are started with, beside what each has of its own.
type Environment struct {
	// Variables are set for every command. What looks like a credential is left
	// out, and named in a warning, unless Keep lists it.
	Variables   map[string]string
	Keep        []string
	PathPrepend []string
	Profile     pathenv.Profile
	Snapshot    bool // login shells may be spared their profile: see docs/explain/login.md
}

// Resources are what all commands of a sandbox may use together.
type Resources struct {
	Memory    int64   // bytes; 0: 2 GiB; negative: unlimited
	Swap      int64   // bytes beside Memory; 0: none; negative: unlimited
	CPUs      float64 // at least 0.01; 0: 2, or half of the machine's if that is less; negative: unlimited
	Pids      int64   // 0: 512; negative: unlimited
	Tmp       int64   // bytes of /tmp; 0: 512 MiB
	Shm       int64   // bytes of /dev/shm; 0: 64 MiB; negative: as much as there is memory
	FileSize  int64   // bytes a file may grow to; 0: 16 GiB; negative: unlimited
	OpenFiles int64   // files a process may have open; 0: 65536; negative: the engine's limit

	// OutputRate is how many bytes of output in a second are taken from a
	// command, beyond the first MiB: one that writes more waits, and nothing
	// is lost. 0 or negative: all that it writes.
	OutputRate int64
}

// Isolation is what keeps commands from the machine.
type Isolation struct {
	// User is the uid:gid that commands run as. Empty: the owner of the
	// workspace on the disk, or 65534:65534 where that is root. In the container
	// it is a user of the sandbox's own where that is possible: see UIDRange.
	User string
	// Root has commands be root in the sandbox, whose root file system can then be
	// written to. It takes gVisor, or an engine that remaps users: there root has no
	// rights on this machine, whose files are the owner's (User) all the same. In gVisor
	// there are none of this machine's that can be written to but private ones.
	Root bool
	// UIDRange are the IDs of users that containers have for themselves, as
	// FIRST-LAST: what the kernel counts for each user is then counted for each
	// sandbox. Files keep their owner. Empty: DefaultUIDRange; SharedUIDs: none.
	UIDRange string

	Network  string // "none", which is also empty; "bridge"; or the name of an engine's network
	Seccomp  string // absolute path of an OCI profile; empty: that of package seccomp
	AppArmor string // name of a profile; empty: the engine's own
}

// Mounts are what commands see of this machine beside the workspace.
type Mounts struct {
	// Binds are directories and files, as SOURCE:TARGET[:ro|rw]. Package boundary
	// says which are refused. With BindRoots, they have to be in one of those.
	Binds     []string
	BindRoots []string
	Volumes   []Volume
	Secrets   map[string]secrets.Source // files that commands find in secrets.Dir, by their names
}

// A Volume is a directory like a private workspace, which several sandboxes may have, and
// outlasts them: see [Config.Volume].
type Volume struct{ Dir, Target string }

// Workdir is the workspace in the container, without [Workspace.Home].
const Workdir = engine.Workdir

// homePattern is what Workspace.Home can be.
var homePattern = lazy.Regexp(`^/home/[a-z][a-z0-9_-]{0,31}$`)

// workdir is the workspace in the container.
func (c *Config) workdir() string { return cmp.Or(c.Workspace.Home, Workdir) }

var namePattern = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// complete checks the configuration and fills in defaults.
func (c *Config) complete() error {
	if c.Engine == nil {
		return corral.Errorf(corral.ErrInvalid, "give an engine, such as that of package sandbox/docker", "no engine is given")
	}
	if c.StateDir == "" {
		return corral.Errorf(corral.ErrInvalid, "give a directory of your own", "no state directory is given")
	}
	var err error
	if c.StateDir, err = filepath.Abs(c.StateDir); err != nil {
		return err
	}
	set := func(s *string, def string) {
		if *s == "" {
			*s = def
		}
	}
	set(&c.Name, "default")
	set(&c.Image, images.Default)
	set((*string)(&c.Driver), string(DriverAuto))
	set((*string)(&c.Workspace.Access), string(AccessNone))
	if !namePattern().MatchString(c.Name) {
		return corral.Errorf(corral.ErrInvalid, "use up to 64 letters, digits, '_', '.' or '-'", "%q cannot name a sandbox", c.Name)
	}
	switch c.Driver {
	case DriverAuto, DriverFDs, DriverFrames, DriverExec:
	default:
		return corral.Errorf(corral.ErrInvalid, "use auto, fds, frames or exec", "unknown sandbox driver %q", c.Driver)
	}
	if c.Driver == DriverFDs && c.kata() {
		return corral.Errorf(corral.ErrInvalid, "use the driver frames, or auto", "the driver fds cannot reach into the kernel that the runtime %s has of its own", c.Runtime)
	}
	if err := c.completeWorkspace(); err != nil {
		return err
	}
	if c.Workspace.Home != "" && !homePattern().MatchString(c.Workspace.Home) {
		return corral.Errorf(corral.ErrInvalid, "use /home/NAME", "%q cannot be the home directory of a sandbox", c.Workspace.Home)
	}
	if err := c.completeSize(); err != nil {
		return err
	}
	if c.Isolation.User == "" {
		c.Isolation.User, c.anyUser = users.Default(c.Workspace.Dir), true
	}
	if err := users.Check(c.Isolation.User); err != nil {
		return err
	}
	set(&c.Isolation.UIDRange, DefaultUIDRange)
	var uerr error
	if c.uids, uerr = users.ParseRange(c.Isolation.UIDRange); uerr != nil {
		return uerr
	}
	if err := c.judge(); err != nil {
		return err
	}
	if len(c.Mounts.Secrets) > 0 {
		dir, err := secrets.Place(c.StateDir, c.Name)
		if err != nil {
			return err
		}
		c.mounts = append(c.mounts, engine.Mount{Source: dir, Target: secrets.Dir, ReadOnly: true})
	}
	if c.Resources.Pids > 0 && c.Resources.Pids < minPids {
		return corral.Errorf(corral.ErrInvalid, fmt.Sprintf("allow at least %d", minPids), "%d processes are too few for a sandbox: its warden and a shell need more", c.Resources.Pids)
	}
	if n := c.Resources.CPUs; !(n <= 0 || minCPUs <= n && n <= maxCPUs) { // nor is it NaN
		return corral.Errorf(corral.ErrInvalid, fmt.Sprintf("use %g to %g", minCPUs, maxCPUs), "a sandbox cannot have %g processors", n)
	}
	if c.SetupCommand != "" {
		if err := (corral.Command{Shell: c.SetupCommand}).Validate(); err != nil {
			return corral.Errorf(corral.ErrInvalid, corral.Hint(err), "the setup command of the sandbox is none: %w", err)
		}
	}
	if c.Resources.OutputRate > 0 && c.Resources.OutputRate < minOutputRate {
		return corral.Errorf(corral.ErrInvalid, fmt.Sprintf("allow at least %d", minOutputRate), "%d bytes of output in a second are too few", c.Resources.OutputRate)
	}
	if c.Lifetime < 0 {
		return corral.Errorf(corral.ErrInvalid, "use 0 for ever", "a sandbox cannot live for %v", c.Lifetime)
	}
	c.completeLimits()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

func (c *Config) completeWorkspace() error {
	switch c.Workspace.Access {
	case AccessNone:
		c.Workspace.Dir = ""
		return nil
	case AccessReadOnly, AccessReadWrite:
	default:
		return corral.Errorf(corral.ErrInvalid, "use none, ro or rw", "unknown workspace access %q", c.Workspace.Access)
	}
	if c.Workspace.Dir == "" {
		return corral.Errorf(corral.ErrInvalid, "name the directory, or use access none", "no workspace is given to be accessed as %s", c.Workspace.Access)
	}
	// What is checked is what is mounted: symbolic links are followed now.
	abs, err := filepath.Abs(c.Workspace.Dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return corral.Errorf(corral.ErrDir, "create it first", "cannot use the workspace %s: %w", c.Workspace.Dir, err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return corral.Errorf(corral.ErrDir, "name a directory", "cannot use the workspace %s: it is not a directory", abs)
	}
	c.Workspace.Dir = abs
	return nil
}

// minOutputRate is the least that output is bounded to, in bytes a second: what
// is on its way at a command's end is still to be taken in time.
const minOutputRate = 1 << 20

// minPids is how many processes and threads a sandbox needs at least: the warden
// has up to a dozen, see its reserveThreads.
const minPids = 16

// Fewer processors than minCPUs are less than the kernel counts, and no limit to an engine.
const minCPUs, maxCPUs = 0.01, 4096.0
