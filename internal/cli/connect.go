package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/session"
)

// Variables that say where the gateway is.
const (
	envURL       = "CORRAL_URL"
	envTokenFile = "CORRAL_TOKEN_FILE"
)

// errNoGateway is wrapped by the errors for a gateway that does not run.
var errNoGateway = corral.Errorf(corral.ErrUnavailable, "", "no gateway is running")

const startGateway = "start one: corral gateway"

// findGateway says where the gateway is that commands are sent to: the one that
// CORRAL_URL names, else the one that uses the state directory. The record is
// nil where that gateway left none that can be read from here.
func (a *app) findGateway() (client.Options, *daemon.Record, error) {
	dir, err := a.stateDir()
	if err != nil {
		return client.Options{}, nil, err
	}
	if url := a.getenv(envURL); url != "" {
		file := cmp.Or(a.getenv(envTokenFile), filepath.Join(dir, api.TokenFile))
		token, err := readToken(file)
		if err != nil {
			return client.Options{}, nil, corral.Errorf(corral.ErrUnavailable, hintFor(err, "name the gateway's token file in "+envTokenFile),
				"cannot call the gateway at %s: %w", url, err)
		}
		record, err := daemon.ReadRecord(filepath.Dir(file))
		return client.Options{URL: url, Token: token}, record, err
	}
	o, err := client.Discover(dir)
	if err != nil && silent(err) {
		return client.Options{}, nil, corral.Errorf(corral.ErrUnavailable, "corral gateway status says more; corral exec --local runs a command past the gateway",
			"a gateway is there with the state directory %s, and cannot be called: %w", dir, err)
	}
	if r := daemon.LoneRecord(dir); err != nil && r != nil {
		return client.Options{}, nil, corral.Errorf(errNoGateway, daemon.LoneHint,
			"no gateway listens: corral mcp (pid %d) is the gateway of the state directory %s, for its own client alone", r.PID, dir)
	}
	if err != nil {
		return client.Options{}, nil, corral.Errorf(errNoGateway, startGateway, "no gateway is running with the state directory %s", dir)
	}
	record, err := daemon.ReadRecord(dir)
	return o, record, err
}

// silent reports whether a gateway may be there that cannot be called: its socket
// is another user's, or it takes no connection.
func silent(err error) bool {
	timeout := net.Error(nil)
	return errors.Is(err, fs.ErrPermission) || errors.As(err, &timeout) && timeout.Timeout()
}

// addAgentFlag defines whose sessions they are.
func (a *app) addAgentFlag(cmd *cobra.Command, agent *string) {
	f := cmd.Flags()
	f.StringVar(agent, "agent", session.DefaultAgent, "`NAME`: whose sessions")
	fromEnvironment(f, "agent")
	must(cmd.RegisterFlagCompletionFunc("agent", a.completeAgents))
}

// connect returns a client of the gateway.
func (a *app) connect(agent string) (*client.Client, error) {
	o, _, err := a.findGateway()
	if err != nil {
		return nil, err
	}
	o.Agent, o.Retry = agent, awayLimit
	return client.New(o)
}

// withClient calls do with a client of the gateway. The first signal ends it.
func (a *app) withClient(ctx context.Context, agent string, do func(context.Context, *client.Client) error) error {
	return foreground.UntilSignal(ctx, func(ctx context.Context) (err error) {
		c, err := a.connect(agent)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		return do(ctx, c)
	})
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
