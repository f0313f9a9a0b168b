package corral

// Host is one of the three places a command can go to.
type Host string

const (
	HostSandbox Host = "sandbox" // a login shell in a container
	HostGateway Host = "gateway" // this machine
	HostNode    Host = "node"    // a paired remote machine
)

// ParseHost reads a host's name; the empty string is no host and no error.
func ParseHost(s string) (Host, error) {
	switch h := Host(s); h {
	case "", HostSandbox, HostGateway, HostNode:
		return h, nil
	}
	return "", Errorf(ErrInvalid, "use sandbox, gateway or node", "unknown host %q", s)
}
