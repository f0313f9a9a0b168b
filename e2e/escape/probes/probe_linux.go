package probes

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/escape"
)

// A Probe is one try to get out.
type Probe struct {
	ID    string // GROUP/NAME
	Tries string // what it does, as a clause without a full stop
	Why   string // what is known of the way: a CVE, an interface and its manual

	// Weak is what must be taken away for it to succeed.
	Weak Weakening
	// GVisor says why it fails even then where gVisor is the kernel. Empty: it
	// succeeds there too.
	GVisor string
	// Inside says why, where gVisor is the kernel, its success is no way out: it
	// succeeds there in a sandbox of the product. Empty: it is held there too.
	Inside string

	Run func(*Env) Verdict
}

// A Weakening makes a container of the product a weak one: it is the same but for
// what is said here.
type Weakening string

const (
	Root       Weakening = "root"              // commands run as root, without capabilities
	Caps       Weakening = "capabilities"      // as root with all capabilities, without seccomp and AppArmor
	Seccomp    Weakening = "no seccomp"        // every system call is allowed
	NewPrivs   Weakening = "new privileges"    // programs can give more rights than their caller has
	FileCaps   Weakening = "file capabilities" // the same, and capabilities can be had
	Paths      Weakening = "unmasked paths"    // nothing of /proc and /sys is hidden or read-only
	RootPaths  Weakening = "unmasked, root"    // both
	Privileged Weakening = "privileged"        // docker run --privileged, as root
	RootWrites Weakening = "writable root"     // the root is writable, and commands run as root
	OurWrites  Weakening = "writable mounts"   // what Corral mounts is writable, and commands run as root
	HostPID    Weakening = "host's processes"  // the host's PID namespace
	HostPIDAll Weakening = "host's processes, capabilities"
	HostNet    Weakening = "host's network"      // the host's network namespace
	HostIPC    Weakening = "host's IPC"          // the host's IPC namespace
	HostRoot   Weakening = "host's root mounted" // read-only, at /host
	Sockets    Weakening = "engine's socket"     // the host's root mounted at /host, and commands run as root
	Metadata   Weakening = "metadata service"    // a network in which there is one
	OpenInit   Weakening = "ordinary init"       // PID 1 is a program like any other; no seccomp
	OpenServer Weakening = "trusting gateway"    // one that does not ask who dials
	Leak       Weakening = "leaked descriptors"  // of a directory of the host and of a secret
	Nested     Weakening = "nested mount"        // a mount inside the workspace
	Cores      Weakening = "core dumps"          // no limit of their size
	Variable   Weakening = "host's environment"  // a variable of the host is handed on
)

// A Verdict is how a try turned out, and what it saw.
type Verdict struct {
	Outcome escape.Outcome
	Detail  string
}

func held(format string, args ...any) Verdict {
	return Verdict{escape.Held, fmt.Sprintf(format, args...)}
}

func escaped(format string, args ...any) Verdict {
	return Verdict{escape.Escaped, fmt.Sprintf(format, args...)}
}

// absent: the host has not laid out what this looks for.
func absent(what string) Verdict {
	return Verdict{escape.Unsupported, "it takes " + what + ", laid out beforehand"}
}

// lacking: the kernel does not have what this is about.
func lacking(format string, args ...any) Verdict {
	return Verdict{escape.Unsupported, fmt.Sprintf(format, args...)}
}

// call judges a try that is one call: nothing but success is an escape.
func call(what string, err error) Verdict {
	if err == nil {
		return escaped("%s works", what)
	}
	return held("%s: %v", what, err)
}

// Env is what a probe has to work with.
type Env struct {
	escape.Site
	Dir string // of its own, empty, writable
}

// Killer is the probe that ends the whole container where it succeeds.
const Killer = "warden/kill"

// All is the table, by group.
func All() []Probe {
	return slices.Concat(capabilities, devices, kernel, mounts, namespaces, cgroups, engine, network, warden, memory, preconditions)
}

// Groups are the titles of the groups, by the first part of an ID.
var Groups = map[string]string{
	"cap": "Capabilities", "dev": "Devices", "kernel": "Kernel interfaces", "mount": "Mounts and symbolic links",
	"ns": "Namespaces", "cgroup": "Control groups", "engine": "The engine's sockets", "net": "Network and metadata addresses",
	"warden": "The warden", "mem": "Memory and descriptors", "cve": "Conditions of known holes",
}

// Group is the first part of an ID.
func Group(id string) string {
	g, _, _ := strings.Cut(id, "/")
	return g
}

// rewrite reads a file and writes the same into it, so that nothing changes
// where that works.
func rewrite(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// anyOf tries all and tells of the first that works, or why the last did not.
func anyOf[T any](what string, all []T, try func(T) error) Verdict {
	if len(all) == 0 {
		return held("%s: there is none", what)
	}
	var last error
	for _, one := range all {
		if last = try(one); last == nil {
			return escaped("%s works: %v", what, one)
		}
	}
	return held("%s: %v", what, last)
}

// reads judges by the secret.
func (e *Env) reads(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 4096)
	n, err := f.Read(b)
	if err == nil && !e.Is(b[:n]) {
		err = errors.New("it holds something else")
	}
	return err
}

// scratch makes a directory to mount on.
func (e *Env) scratch(name string) (string, error) {
	dir := e.Dir + "/" + name
	return dir, os.Mkdir(dir, 0o700)
}

// unmounted takes away what a try has mounted.
func unmounted(dir string, err error) error {
	if err == nil {
		_ = unix.Unmount(dir, unix.MNT_DETACH) // the container goes anyway
	}
	return err
}
