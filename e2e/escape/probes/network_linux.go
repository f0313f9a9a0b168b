package probes

import (
	"net"
	"strings"

	"golang.org/x/sys/unix"
)

const ownNetwork = "the runtime runs with --network=none: gVisor's own network, whatever the namespace"

var network = []Probe{
	{ID: "net/loopback", Tries: "connects to a service on the host's loopback address", Why: "network_namespaces(7)", Weak: HostNet, GVisor: ownNetwork, Run: func(e *Env) Verdict {
		return connect(e, func(address string) bool { return strings.HasPrefix(address, "127.") })
	}},
	{ID: "net/host", Tries: "connects to a service on another address of the host", Why: "network none has no route to it", Weak: HostNet, GVisor: ownNetwork, Run: func(e *Env) Verdict {
		return connect(e, func(address string) bool { return !strings.HasPrefix(address, "127.") })
	}},
	{ID: "net/udp", Tries: "asks a service of the host by UDP, as name servers are asked", Why: "names carry data out: DNS tunnels", Weak: HostNet, GVisor: ownNetwork, Run: func(e *Env) Verdict {
		if e.UDP == "" {
			return absent("a service")
		}
		return call("asking", e.tells("udp", e.UDP, "?"))
	}},
	{ID: "net/metadata", Tries: "asks the cloud's metadata service", Why: "169.254.169.254 hands out the machine's credentials", Weak: Metadata, GVisor: ownNetwork, Run: func(*Env) Verdict {
		return anyOf("asking", []string{"169.254.169.254:80", "[fd00:ec2::254]:80", "100.100.100.200:80", "169.254.170.2:80"}, func(address string) error {
			return ask("tcp", address, "GET /latest/meta-data/ HTTP/1.0\r\n\r\n", nil)
		})
	}},
	{ID: "net/interfaces", Tries: "finds an interface other than loopback that is up", Why: "network none", Weak: HostNet, GVisor: ownNetwork, Run: interfaces},
	{ID: "net/vsock", Tries: "opens a socket to the hypervisor", Why: "vsock(7): it has no namespaces", Weak: Seccomp, GVisor: "gVisor has no vsock", Run: func(*Env) Verdict {
		fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == unix.EAFNOSUPPORT && !gvisor() {
			return lacking("the kernel has no vsock")
		}
		return tryFD("socket(AF_VSOCK)", func() (int, error) { return fd, err })
	}},
}

func connect(e *Env, which func(string) bool) Verdict {
	var to []string
	for _, address := range e.TCP {
		if which(address) {
			to = append(to, address)
		}
	}
	if len(to) == 0 {
		return absent("a service")
	}
	return anyOf("connecting", to, func(address string) error { return e.tells("tcp", address, "") })
}

func interfaces(*Env) Verdict {
	all, err := net.Interfaces()
	if err != nil {
		return held("listing: %v", err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return escaped("there is %s", i.Name)
		}
	}
	return held("there are only %d others", len(all))
}
