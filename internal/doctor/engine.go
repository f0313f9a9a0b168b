package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/engines"
)

// oldestAPI is the oldest version of Docker's API, that of Docker 20.10.
const oldestAPI = "1.41"

// oldestContainerd is the oldest version of containerd, that of Debian 12.
const oldestContainerd = "1.6.20"

func Engine(f EngineFacts) Finding {
	api := ""
	if f.API != "" {
		api = ", API " + f.API
	}
	c := Fine("engine", "%s %s%s, linux/%s, at %s", f.Name, f.Version, api, f.Arch, f.Address)
	switch {
	case f.API == "" && f.Name == engines.Containerd && compareVersions(f.Version, oldestContainerd) < 0:
		c.Status = Warn
		c.Meaning = "Corral is tested with containerd " + oldestContainerd + " and newer."
		c.Fix = "update the engine"
	case f.API != "" && compareVersions(f.API, oldestAPI) < 0:
		c.Status = Warn
		c.Meaning = "Corral is tested with API " + oldestAPI + " (Docker 20.10) and newer."
		c.Fix = "update the engine"
	case !f.Local:
		c.Meaning = "The engine does not see this machine's files: a sandbox cannot have a workspace of this machine, and is spoken to in messages (driver frames)."
	}
	return c
}

// SocketMode is the mode of a socket, and whether this user may write to it.
func SocketMode(path string) (fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Mode(), nil
}

// Socket says which other users can use the engine. This user can, since the engine
// answered.
func Socket(address string, uid int, mode func(string) (fs.FileMode, error)) Finding {
	const name = "socket"
	path, local := strings.CutPrefix(address, "unix://")
	if !local {
		c := Fine(name, "the engine is reached over %s", address)
		if strings.HasPrefix(address, "tcp://") && os.Getenv("DOCKER_TLS_VERIFY") == "" {
			c.Status = Warn
			c.Meaning = "Without TLS, all who reach that port are root on the engine's machine."
			c.Fix = "serve it over TLS and set DOCKER_TLS_VERIFY=1, or use ssh://"
		}
		return c
	}
	m, err := mode(path)
	if err != nil {
		return Finding{Name: name, Status: Warn, Summary: "cannot look at the engine's socket: " + words.OneLine(err.Error())}
	}
	c := Fine(name, "%s %v; this user may use it", path, m.Perm())
	switch {
	case m.Perm()&0o002 != 0:
		c.Status = Warn
		c.Meaning = "Every user of this machine can use the engine, and so become root on it."
		c.Fix = "chmod o-rw " + path
	case uid != 0:
		c.Meaning = "Users of this socket are as powerful as the engine's user, usually root."
	}
	return c
}

func Runtimes(f EngineFacts, wanted string) Finding {
	c := Fine("runtimes", "%s (default %s)", strings.Join(f.Runtimes, ", "), cmp.Or(f.Default, "not named"))
	has := func(r string) bool { return slices.Contains(f.Runtimes, r) }
	switch {
	case wanted != "" && !has(wanted):
		c.Status = Fail
		c.Meaning = fmt.Sprintf("Sandboxes are to run under %s, which the engine does not have.", wanted)
		c.Fix = "add it to the engine's configuration (" + runtimesOf(f.Name) + "), or choose another with --runtime"
	case !has("runsc"):
		c.Meaning = "There is no gVisor (runsc): sandboxes share the machine's kernel. For code you have reason to fear, install it and use --runtime runsc."
	case len(f.Closed()) > 0:
		c.Meaning = fmt.Sprintf("gVisor as %s does not let a sandbox dial the socket of its gateway, so output and input travel in messages, several times as slowly.", strings.Join(f.Closed(), ", "))
		c.Fix = `add "--host-uds=open" to its runtimeArgs in /etc/docker/daemon.json; docs/reference/engines.md says what that exposes`
	}
	return c
}

// runtimesOf names the file that configures an engine's runtimes.
func runtimesOf(engine string) string {
	switch engine {
	case engines.Podman:
		return "[engine.runtimes] of /etc/containers/containers.conf"
	case engines.Containerd:
		return "which is to install it: it is looked for on PATH"
	}
	return "\"runtimes\" of /etc/docker/daemon.json"
}

func Cgroup(f EngineFacts) Finding {
	c := Fine("cgroup", "version %s", cmp.Or(f.Cgroup, "unknown"))
	switch f.Cgroup {
	case "2":
	case "1":
		c.Status = Warn
		c.Meaning = "Limits of memory, processors and processes hold; swap may not be accounted, and a rootless engine cannot limit anything."
		c.Fix = "boot with systemd.unified_cgroup_hierarchy=1"
	default:
		c.Status = Warn
		c.Meaning = "It is not known whether limits of memory, processors and processes hold."
		c.Fix = "see the warnings of docker info"
	}
	return c
}

// securityOption finds an option of the engine: "name=seccomp,profile=default".
func securityOption(options []string, name string) (values map[string]string, found bool) {
	for _, option := range options {
		values = make(map[string]string)
		for part := range strings.SplitSeq(option, ",") {
			k, v, _ := strings.Cut(part, "=")
			values[k] = v
		}
		if values["name"] == name {
			return values, true
		}
	}
	return nil, false
}

func Seccomp(f EngineFacts) Finding {
	const name = "seccomp"
	values, found := securityOption(f.Security, name)
	switch {
	case !found:
		return Finding{Name: name, Status: Warn, Summary: "the engine has no seccomp",
			Meaning: "Commands in a sandbox can make every system call the kernel has, also those that have had holes.",
			Fix:     "use a kernel and an engine with seccomp, or --runtime runsc"}
	case values["profile"] == "unconfined":
		return Finding{Name: name, Status: Warn, Summary: "the engine's profile is unconfined",
			Meaning: "Commands in a sandbox can make every system call the kernel has, also those that have had holes.",
			Fix:     "remove \"seccomp-profile\" from the engine's configuration"}
	}
	return Fine(name, "profile %s", cmp.Or(values["profile"], "default"))
}

func Privileges(f EngineFacts) Finding {
	c := Fine("privileges", "every sandbox has no-new-privileges and no capabilities")
	if _, found := securityOption(f.Security, "no-new-privileges"); !found {
		c.Meaning = "Corral asks for it each time; the engine itself does not impose it on other containers."
	}
	return c
}

// compareVersions compares "1.1.12", "v1.4.0-rc.3" and the like. A suffix of a
// distribution ("+ds1") does not count.
func compareVersions(a, b string) int { return slices.Compare(versionNumbers(a), versionNumbers(b)) }

// versionNumbers are always four. The last is the number of the release candidate; for a
// release it is larger than any such number.
func versionNumbers(v string) []int {
	v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "+")
	v, candidate, found := strings.Cut(strings.ReplaceAll(v, "~", "-"), "-rc")
	v, _, _ = strings.Cut(v, "-")
	numbers := make([]int, 4)
	for i, part := range strings.SplitN(v, ".", 4) {
		n, err := strconv.Atoi(part)
		if err != nil || i == 3 {
			break
		}
		numbers[i] = n
	}
	numbers[3] = math.MaxInt
	if found {
		number, _, _ := strings.Cut(strings.TrimPrefix(candidate, "."), "-")
		numbers[3], _ = strconv.Atoi(number) // 0 where there is none
	}
	return numbers
}

// EngineFacts are the properties of an engine that corral doctor checks.
type EngineFacts struct {
	engine.Info
	API   string // version of its API; empty if the API has no version of its own
	Build RuncBuild
}

// RuncBuild is the OCI runtime as the engine describes it.
type RuncBuild struct {
	Version  string // such as "1.1.12", or "1.1.5+ds1" of Debian
	Revision string // of its source: "v1.1.12-0-g51d5e946", or the package's version
}
