package containerd

import "cmp"

// What Options are when they are empty.
const (
	DefaultAddress   = "/run/containerd/containerd.sock"
	DefaultNamespace = "corral"
	DefaultDir       = "/var/lib/corral/containerd"
)

// Options of an Engine.
type Options struct {
	// Address is containerd's socket, an absolute path. Empty:
	// CONTAINERD_ADDRESS, else DefaultAddress.
	Address string
	// Namespace of containerd that everything is in. Empty: DefaultNamespace.
	Namespace string
	// Dir is where a container's files on this machine are: the named pipes of
	// its standard streams, its /etc/hostname. It is on a file system from which
	// programs can be executed. Empty: DefaultDir. Programs with other
	// directories can work on one namespace: a container knows its own.
	Dir string
}

func (o Options) complete(getenv func(string) string) Options {
	o.Address = trimScheme(cmp.Or(o.Address, getenv("CONTAINERD_ADDRESS"), DefaultAddress))
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	o.Dir = cmp.Or(o.Dir, DefaultDir)
	return o
}

func trimScheme(address string) string {
	const scheme = "unix://"
	if len(address) > len(scheme) && address[:len(scheme)] == scheme {
		return address[len(scheme):]
	}
	return address
}
