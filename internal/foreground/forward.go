package foreground

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/gateway/ports"
)

// A Forward is a port of this machine that leads to one inside a sandbox, or of a node.
type Forward struct {
	Sandbox string `json:"sandbox,omitempty"`
	Node    string `json:"node,omitempty"`
	Port    int    `json:"port"`    // inside
	Address string `json:"address"` // on this machine

	local int
}

// ParseForward reads PORT[:LOCAL].
func ParseForward(text string) (*Forward, error) {
	inside, local, both := strings.Cut(text, ":")
	if !both {
		local = inside
	}
	f := &Forward{}
	var err, lerr error
	f.Port, err = ports.Number(inside)
	if local != "0" { // which is any that is free
		f.local, lerr = ports.Number(local)
	}
	if err != nil || lerr != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "write the port inside the sandbox, and after a colon that of this machine: 8080, 8080:80 or 8080:0", "%.40q is no port to forward", text)
	}
	return f, nil
}

// A PortJoin joins a connection with a port of a sandbox or node, and closes it.
type PortJoin func(ctx context.Context, conn *net.TCPConn, port int) error

// Of is the name of the sandbox or node.
func (f *Forward) Of() string { return cmp.Or(f.Sandbox, f.Node) }

// Forwards are ports of this machine, on which this program listens.
type Forwards map[net.Listener]*Forward

// Listen listens on 127.0.0.1, and fills in the addresses.
func Listen(list []*Forward) (_ Forwards, err error) {
	all := Forwards{}
	defer func() {
		if err != nil {
			all.Close()
		}
	}()
	for _, f := range list {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.local)))
		if err != nil {
			return nil, corral.Errorf(corral.ErrUnavailable, fmt.Sprintf("give another port of this machine: %d:0 takes any that is free", f.Port), "cannot listen for port %d: %w", f.Port, err)
		}
		f.Address, all[l] = l.Addr().String(), f
	}
	return all, nil
}

// Close ends listening.
func (all Forwards) Close() {
	for l := range all {
		l.Close()
	}
}

// Serve joins what connects with the ports, until ctx ends. It warns of connections that
// cannot be joined.
func (all Forwards) Serve(ctx context.Context, join PortJoin, warn func(string)) error {
	return Accept(ctx, slices.Collect(maps.Keys(all)), func(ctx context.Context, l net.Listener, conn net.Conn) error {
		return join(ctx, conn.(*net.TCPConn), all[l].Port)
	}, func(l net.Listener, err error) {
		text := fmt.Sprintf("A connection to port %d of %s: %v", all[l].Port, all[l].Of(), err)
		if errors.Is(err, corral.ErrNotListening) || errors.Is(err, errors.ErrUnsupported) {
			text = err.Error()
		}
		if hint := corral.Hint(err); hint != "" {
			text += " (" + hint + ")"
		}
		warn(text)
	})
}
