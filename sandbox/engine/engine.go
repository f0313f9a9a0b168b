package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// An Engine makes containers. Its methods may be called from any goroutine and
// end with their context. Errors are corral.ErrUnavailable when the engine
// cannot be reached or refuses permission, with a hint how to get there.
type Engine interface {
	// Info says which engine it is. It is also how to ask whether it is there.
	Info(ctx context.Context) (Info, error)

	// Create makes a container and does not start it. ErrNoImage if the
	// image is not there, ErrNameTaken if the name is.
	Create(ctx context.Context, spec Spec) (id string, err error)
	Start(ctx context.Context, id string) error
	// Inspect takes an ID or a name. ErrNoContainer if there is none.
	Inspect(ctx context.Context, id string) (Container, error)
	// Env is the environment, "NAME=value", that the image of a container gives programs.
	Env(ctx context.Context, id string) ([]string, error)
	// Attach connects to the standard streams of a container that was made
	// with Spec.Stdio. Reading yields its standard output.
	Attach(ctx context.Context, id string) (io.ReadWriteCloser, error)
	// Remove kills and removes a container with its anonymous volumes. A
	// container that does not exist is no error.
	Remove(ctx context.Context, id string) error
	// List returns the containers that have all of the labels.
	List(ctx context.Context, labels map[string]string) ([]Container, error)

	Close() error
}

// Errors of an Engine.
var (
	ErrNoContainer = errors.New("no such container")
	ErrNoImage     = errors.New("no such image")
	ErrNameTaken   = errors.New("a container with that name exists")
)

// Info describes an engine.
type Info struct {
	Name string `json:"name"` // "docker", "podman"
	// ID tells engines of one Name apart, and stays the same when the engine is restarted.
	// An engine that was installed anew has another one. Empty: it has none.
	ID       string `json:"id,omitempty"`
	Version  string `json:"version"` // of the engine
	Address  string `json:"address"` // where it was reached
	Arch     string `json:"arch"`    // as GOARCH
	Runtimes []string
	Default  string `json:"defaultRuntime"`
	// RuntimeArgs are the arguments of runtimes, of those for which the engine says
	// which they are.
	RuntimeArgs map[string][]string `json:"-"`

	// Local says that the engine sees this machine's file system, so that
	// directories and sockets can be mounted.
	Local bool `json:"local"`
	// Nested says that this program runs in a container of the engine, which is
	// not Local for that reason: Shared are the directories that both see, as the
	// engine's machine names them (Source, of a volume where it has that) and this
	// program does (Target). One without a Source is this program's alone.
	Nested    bool    `json:"nested,omitempty"`
	Container string  `json:"-"` // its ID, if Nested
	Shared    []Mount `json:"-"`
	Rootless  bool    `json:"rootless"`
	// RemapUID and RemapGID are what IDs outside have more than in a container
	// whose users the engine remaps.
	RemapUID int      `json:"remapUID,omitempty"`
	RemapGID int      `json:"remapGID,omitempty"`
	Security []string `json:"security"` // as the engine names them: "name=seccomp,profile=default", …
	Runc     string   `json:"runc"`     // version of the default OCI runtime, may be empty
	CPUs     int      `json:"cpus"`     // of the engine's machine; 0 if it does not say
	Cgroup   string   `json:"cgroup"`   // "1" or "2"
}

// IsGVisor reports whether a runtime, by its name or path, is gVisor.
func IsGVisor(runtime string) bool { return strings.HasPrefix(filepath.Base(runtime), "runsc") }

// KeepsRoot reports whether root in a container has no rights of root's outside: the
// container has a kernel of its own, or its root is another user to the machine's. A
// rootless engine is not meant: what its containers leave, its user could not remove.
func (i Info) KeepsRoot(runtime string) bool {
	return !i.Rootless && (IsGVisor(runtime) || slices.ContainsFunc(i.Security, func(s string) bool { return strings.HasPrefix(s, "name=userns") }))
}

// OpensSockets reports whether gVisor, as the runtime of this name, lets what is in a
// container connect to the Unix sockets that are mounted into it, and whether the
// engine says so.
func (i Info) OpensSockets(runtime string) (opens, known bool) {
	args, known := i.RuntimeArgs[runtime]
	for _, arg := range args {
		switch strings.TrimLeft(arg, "-") {
		case "host-uds=open", "host-uds=all", "fsgofer-host-uds", "fsgofer-host-uds=true": // the latter are of releases before 2022-12
			return true, true
		}
	}
	return false, known
}

// Closed are the runtimes of gVisor that open no sockets, as the engine says.
func (i Info) Closed() []string {
	var closed []string
	for _, name := range i.Runtimes {
		if opens, known := i.OpensSockets(name); IsGVisor(name) && known && !opens {
			closed = append(closed, name)
		}
	}
	slices.Sort(closed)
	return closed
}

// Container is a container as the engine sees it.
type Container struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Image   string            `json:"image"`
	Labels  map[string]string `json:"labels"`
	Running bool              `json:"running"`
	Paused  bool              `json:"paused,omitempty"` // it is Running, and frozen
	PID     int               `json:"pid"`              // of its init, on the engine's machine; 0 if it does not run
	Exit    int               `json:"exit"`
	OOM     bool              `json:"oomKilled"`
	Error   string            `json:"error,omitempty"` // why it could not be started
}

// Hostname is the host name of a container with a name.
func Hostname(name string) string {
	return strings.Trim(strings.NewReplacer(".", "-", "_", "-").Replace(name)[:min(len(name), 63)], "-")
}

// Spec is a container to make.
type Spec struct {
	Name    string
	Image   string
	Runtime string // empty: the engine's default
	Labels  map[string]string
	Args    []string // of PID 1
	User    string   // uid:gid
	Dir     string   // working directory
	Mounts  []Mount
	Tmpfs   []Tmpfs
	Stdio   bool // standard streams can be attached to

	Memory  int64               // bytes; 0: unlimited
	Swap    int64               // bytes beside Memory; 0: none; negative: unlimited
	CPUs    float64             // 0: unlimited
	Pids    int64               // 0: unlimited
	Rlimits []specs.POSIXRlimit // of every process
	// Files a process may have open; 0: as the engine has it. The warden sees
	// to it: engines that may not raise their own limit would fail.
	NoFiles int64
	Shm     int64 // bytes of /dev/shm; 0: the engine's

	Network  string              // empty: none; else one that boundary.Network lets pass
	Seccomp  *specs.LinuxSeccomp // nil: the engine's own
	Profile  string              // digest of what Seccomp was chosen from, so that the container is made anew with it
	AppArmor string              // name of a profile; empty: the engine's own

	// Root is for commands that are root in the container: its root file system can be
	// written to, and User, which is 0:0, has the capabilities that [RootCapabilities] are.
	// Only a container whose root has no rights outside may have it.
	Root bool

	// UIDRange is where User is from, if it is the container's own, so that the
	// container is made anew with another. It is nothing to an Engine.
	UIDRange string
	// Home is the home directory of User by /etc/passwd, if it is a configured one, so that
	// the container is made anew with another. It is nothing to an Engine.
	Home string
	// Setup is a digest of what is run in it before anything else, so that the
	// container is made anew with another. It is nothing to an Engine.
	Setup string
}

// HostsFile has the addresses of names. An engine that does not see this machine's files makes
// one.
const HostsFile = "/etc/hosts"

// Covers reports whether a file is of a mount.
func (s Spec) Covers(file string) bool {
	return slices.ContainsFunc(s.Mounts, func(m Mount) bool { return m.Target == file || m.Target == path.Dir(file) })
}

// Mount is a directory of the engine's machine, or a named volume, in a
// container.
type Mount struct {
	Source   string // absolute path, or a volume's name
	Target   string
	ReadOnly bool
	Volume   bool
	// Size is what can be written there, in bytes: the file system that is
	// mounted sees to it, and no engine has to. 0: not limited by it.
	Size int64
	// What is mounted below Source is there too, unless it is read-only:
	// then only what is in Source's own file system is, since not every
	// engine could make the rest read-only.
}

// Tmpfs is a file system in memory.
type Tmpfs struct {
	Target string
	Size   int64 // bytes
	Inodes int64 // files and directories; 0: as many as there is memory for
	Mode   uint32
	Exec   bool // programs on it can be executed
}

// Options are what it is mounted with, for commands of user, which is a [Spec]'s. It
// belongs to that user: runc before 1.2 gives it the mode that the image's directory
// has, whatever Mode is, and that of /run lets root alone write.
func (t Tmpfs) Options(user string) []string {
	exec := "noexec"
	if t.Exec {
		exec = "exec"
	}
	options := []string{"rw", "nosuid", "nodev", exec, fmt.Sprintf("size=%d", t.Size), fmt.Sprintf("mode=%o", t.Mode)}
	if t.Inodes > 0 {
		options = append(options, fmt.Sprintf("nr_inodes=%d", t.Inodes))
	}
	if uid, gid, ok := strings.Cut(user, ":"); ok {
		options = append(options, "uid="+uid, "gid="+gid)
	}
	return options
}

// RootCapabilities are what root needs to install programs and to become another user.
// None of them is about the machine, the network or devices.
var RootCapabilities = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"}

// Spec has no field for privileges, capabilities or host namespaces: every
// Engine makes every container without them (but for Root), on a read-only root, with no new
// privileges, namespaces of its own, no devices but the usual ones, and no log
// of its output. What it asks for was judged by package boundary; an Engine
// refuses what it does not have (a network, a profile), and never leaves it out.

// A Filler is an engine that can put a file into a volume, for machines whose
// file system it does not see.
type Filler interface {
	// Fill makes a volume with one executable file, unless it exists.
	Fill(ctx context.Context, volume, image, name string, content []byte) error
}

// A FileReader is an engine that shows files of containers, also before they are started.
type FileReader interface {
	// ReadFile is a regular file. It is fs.ErrNotExist if there is none, or one of more
	// than so many bytes.
	ReadFile(ctx context.Context, id, name string, most int64) ([]byte, error)
}

// A NearEngine says in less time than Info what is asked of it most often.
type NearEngine interface {
	// Near is Info.Name, and whether Info.Local can be true: the engine listens on a
	// socket of this machine, and this program is in none of its containers.
	Near(ctx context.Context) (name string, local bool, err error)
}

// A VolumeEngine is an Engine whose Mount can be a volume that it makes by itself,
// for private workspaces where this machine's directories are out of its sight.
type VolumeEngine interface {
	// RemoveVolume removes a named volume that no container has any more. One
	// that does not exist is no error.
	RemoveVolume(ctx context.Context, name string) error
}

// An ExecEngine can run a command in a running container by itself.
type ExecEngine interface {
	Exec(ctx context.Context, id string, cmd ExecSpec) (Exec, error)
}

// ExecSpec is a command for an ExecEngine.
type ExecSpec struct {
	Args []string
	Env  []string
	Dir  string
	User string
	TTY  bool
	Rows uint16
	Cols uint16
	// Stdin connects standard input.
	Stdin bool
}

// Exec is a command that an ExecEngine runs.
type Exec interface {
	// Read yields the next output and its stream (1 or 2); io.EOF after the last.
	Read(p []byte) (n int, stream int, err error)
	io.Writer
	CloseWrite() error
	Resize(ctx context.Context, rows, cols uint16) error
	// Result waits for the end, and returns the exit code.
	Result(ctx context.Context) (code int, err error)
	Close() error
}
