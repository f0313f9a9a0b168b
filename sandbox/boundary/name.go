package boundary

import (
	"strings"

	"github.com/corral-exec/corral/internal/lazy"
)

// Networks that every engine has.
const (
	NetworkNone   = "none"   // the default: a loopback interface alone
	NetworkBridge = "bridge" // the engine's own: out to everywhere
)

// netName is what a network of an engine can be called. It has no colon: a name with
// one is no network, but the way to that of another container or namespace.
var netName = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// Network judges the network that a sandbox is to join; empty is none. A name
// says nothing of what the network is: its driver is for the engine to check.
func Network(name string) *Refusal {
	refuse := func(rule Rule, why, fix string) *Refusal {
		return &Refusal{Rule: rule, Subject: name, Why: why, Fix: fix}
	}
	const fix = `use the network "none", or "bridge" for one that reaches everything`
	switch n := fold(strings.TrimSpace(name)); {
	case name == "":
		return nil
	case n == "host" || strings.HasPrefix(n, "host:"):
		return refuse(NetworkHost, "with the machine's own network it would reach every service that listens for this machine alone", fix)
	case strings.HasPrefix(n, "container:") || strings.HasPrefix(n, "ns:") || strings.HasPrefix(n, "pod:"):
		return refuse(NetworkContainer, "it is the network of another container or namespace, with whatever that can reach", fix)
	case strings.HasPrefix(n, "egress:"):
		return refuse(NetworkEgress, "a network that reaches listed hosts alone does not exist yet", fix)
	case !netName().MatchString(name):
		return refuse(NetworkName, "it is no name of a network", fix)
	}
	return nil
}

// Unconfined reports whether a profile's name means none. Engines take flags
// and label prefixes around it.
func unconfined(name string) bool {
	n := fold(strings.TrimSpace(name))
	if i := strings.LastIndexAny(n, "=: \t"); i >= 0 {
		n = n[i+1:]
	}
	return n == "unconfined" || n == "disable" || n == "disabled" || n == "complain"
}

// Seccomp judges a choice of seccomp profile: empty or "default" is Corral's own,
// else it is the absolute path of a file.
func Seccomp(name string) *Refusal {
	const fix = `leave sandbox.seccomp out, or give the absolute path of a profile in the form of the OCI runtime specification`
	switch {
	case name == "" || name == "default":
		return nil
	case unconfined(name):
		return &Refusal{Rule: SeccompUnconfined, Subject: name, Why: "without a seccomp profile every system call of the kernel can be made from the sandbox", Fix: fix}
	case !strings.HasPrefix(name, "/"):
		return &Refusal{Rule: SeccompProfile, Subject: name, Why: "it is no absolute path of a seccomp profile", Fix: fix}
	}
	return nil
}

// profileName is what an AppArmor profile can be called here.
var profileName = lazy.Regexp(`^[A-Za-z0-9/][A-Za-z0-9_./+-]{0,127}$`)

// AppArmor judges a choice of AppArmor profile: empty is the engine's own, else
// the name of one that is loaded.
func AppArmor(name string) *Refusal {
	const fix = `leave sandbox.apparmor out, or name a profile that is loaded on the engine's machine`
	switch {
	case name == "":
		return nil
	case unconfined(name):
		return &Refusal{Rule: AppArmorUnconfined, Subject: name, Why: "without an AppArmor profile the sandbox loses a wall", Fix: fix}
	case !profileName().MatchString(name):
		return &Refusal{Rule: AppArmorProfile, Subject: name, Why: "it is no name of an AppArmor profile", Fix: fix}
	}
	return nil
}
