// Package reach finds the gateway that commands are sent to, and asks for its state.
package reach

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/daemon"
)

// Variables that say where the gateway is.
const (
	EnvURL       = "CORRAL_URL"
	envTokenFile = "CORRAL_TOKEN_FILE"
)

// ErrNoGateway is wrapped by the errors for a gateway that does not run.
var ErrNoGateway = corral.Errorf(corral.ErrUnavailable, "", "no gateway is running")

// StartHint is the hint of ErrNoGateway, unless corral mcp is the gateway.
const StartHint = "start one: corral gateway"

// A Place says where to look for a gateway: at the address in CORRAL_URL, in the
// context in CORRAL_CONTEXT or the current one, or else in a state directory.
type Place struct {
	StateDir string
	Named    bool // the user named the state directory
	Getenv   func(string) string
}

// Find returns the way to the gateway. The record is nil if no record of the gateway
// can be read from here.
func (p Place) Find() (client.Options, *daemon.Record, error) {
	if url := p.Getenv(EnvURL); url != "" {
		file := cmp.Or(p.Getenv(envTokenFile), filepath.Join(p.StateDir, api.TokenFile))
		token, err := readToken(file)
		if err != nil {
			return client.Options{}, nil, corral.Errorf(corral.ErrUnavailable, cmp.Or(corral.Hint(err), "name the gateway's token file in "+envTokenFile),
				"cannot call the gateway at %s: %w", url, err)
		}
		record, err := daemon.ReadRecord(filepath.Dir(file))
		return client.Options{URL: url, Token: token}, record, err
	}
	if c, ok, err := p.context(); err != nil || ok {
		return c.Options(), nil, err
	}
	o, err := client.Discover(p.StateDir)
	if err == nil {
		record, err := daemon.ReadRecord(p.StateDir)
		return o, record, err
	}
	if silent(err) {
		return client.Options{}, nil, corral.Errorf(corral.ErrUnavailable, "corral gateway status says more; corral exec --local runs a command past the gateway",
			"a gateway is there with the state directory %s, and cannot be called: %w", p.StateDir, err)
	}
	if r := daemon.LoneRecord(p.StateDir); r != nil {
		return client.Options{}, nil, corral.Errorf(ErrNoGateway, daemon.LoneHint,
			"no gateway listens: corral mcp (pid %d) is the gateway of the state directory %s, for its own client alone", r.PID, p.StateDir)
	}
	return client.Options{}, nil, corral.Errorf(ErrNoGateway, StartHint, "no gateway is running with the state directory %s", p.StateDir)
}

// silent reports whether a gateway may run that cannot be called: its socket belongs to
// another user, or accepts no connection.
func silent(err error) bool {
	timeout := net.Error(nil)
	return errors.Is(err, fs.ErrPermission) || errors.As(err, &timeout) && timeout.Timeout()
}

// maxToken bounds a token file, in bytes.
const maxToken = 4096

func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxToken))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("the token file %s is empty", path)
	}
	if err := gateway.CheckToken(token); err != nil {
		return "", fmt.Errorf("cannot use the token file %s: %w", path, err)
	}
	return token, nil
}
