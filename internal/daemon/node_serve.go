package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/join"
	"github.com/corral-exec/corral/internal/fleet/node"
	"github.com/corral-exec/corral/internal/fleet/pairing"
)

// NodeDir is the node's directory in the state directory. A gateway of the same state
// directory has nothing there.
const NodeDir = "node"

// TokenVariable has a setup token. It is a secret, so that there is no flag for the
// token itself.
const TokenVariable = "CORRAL_NODE_TOKEN"

// NodeOptions are those of a node.
type NodeOptions struct {
	Options
	Dir       string // see NodeDir
	Line      string // where the gateway is; empty: as before
	Repair    bool   // it may be another gateway than before
	Name      string // suggested to the gateway; empty: the machine's name
	TokenFile string // empty: TokenVariable
	// Changed is called with the state of the node, whenever that changes.
	Changed func(join.Line, node.Status)
}

// ServeNode is a node until ctx ends.
func ServeNode(ctx context.Context, o NodeOptions) (err error) {
	log := o.Log
	st, err := node.Open(o.Dir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := st.Use(o.Line, o.Repair); err != nil {
		return err
	}
	token := ""
	if st.TakesToken() { // else the file may be gone: a unit names it for ever
		if token, err = o.setupToken(); err != nil {
			return err
		}
	}
	o.Environ = slices.DeleteFunc(slices.Clone(o.Environ), func(kv string) bool { return strings.HasPrefix(kv, TokenVariable+"=") })
	x, err := OpenNodeHost(o.Options, o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	host, err := os.Hostname()
	if err != nil {
		log.Warn("this machine's name cannot be found out", "error", err) // people do without it
	}
	hello := pairing.Hello{
		Name: cmp.Or(o.Name, host), OS: runtime.GOOS, Arch: runtime.GOARCH, Version: o.Version, Addresses: ownAddresses(),
	}
	notifySystemd(log, systemd.SdNotifyReady)
	err = node.Run(ctx, node.Config{
		State: st, Executor: x.Node, Hello: hello, Host: host, Token: token, Setup: o.setup(), Log: log,
		Changed: func(s node.Status) {
			notifySystemd(log, "STATUS="+s.String())
			o.Changed(st.Line(), s)
		},
	})
	notifySystemd(log, systemd.SdNotifyStopping)
	if err == nil {
		log.Info("the node has stopped; what it runs goes on")
	}
	return err
}

// setup is what a node says of itself for corral node status.
func (o *NodeOptions) setup() node.Setup {
	var s node.Setup
	if _, err := os.Stat(o.Config.Path); err == nil || o.Config.Named {
		s.Config = o.Config.Path
	}
	if o.given("sandbox") {
		s.Sandbox = o.Settings.Mode
	}
	return s
}

// maxTokenFile bounds a file with a setup token, in bytes.
const maxTokenFile = 4 << 10

// setupToken is empty if there is none.
func (o *NodeOptions) setupToken() (string, error) {
	if o.TokenFile == "" {
		return strings.TrimSpace(o.getenv(TokenVariable)), nil
	}
	f, err := os.Open(o.TokenFile)
	if err != nil {
		return "", corral.Errorf(corral.ErrInvalid, "corral nodes tokens new prints a token on the gateway; write it to that file", "cannot read the setup token: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	token := strings.TrimSpace(string(data))
	if err == nil && (len(data) > maxTokenFile || token == "") {
		err = fmt.Errorf("%s is empty, or more than a token", o.TokenFile)
	}
	if err != nil {
		return "", corral.Errorf(corral.ErrInvalid, "write a token to it, and nothing else", "cannot read the setup token: %w", err)
	}
	return token, nil
}

// maxAddresses is how many addresses are told of this machine.
const maxAddresses = 8

// ownAddresses are those by which others might know this machine.
func ownAddresses() []string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil // people do without them
	}
	var list []string
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if ip := p.Addr(); err == nil && ip.IsGlobalUnicast() && len(list) < maxAddresses {
			list = append(list, ip.String())
		}
	}
	return list
}

func notifySystemd(log *slog.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.Warn("systemd could not be told", "state", state, "error", err)
	}
}
