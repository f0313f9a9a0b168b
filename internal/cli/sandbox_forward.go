package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/tunnel"
)

func (a *app) sandboxForward() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "forward [flags] NAME PORT[:LOCAL]...", Short: "Reach ports inside a sandbox from this machine",
		Long: `Listen on ports of this machine (127.0.0.1), and connect what comes there to TCP
ports inside a sandbox, until Ctrl-C. The program inside may listen on 127.0.0.1,
and the sandbox needs no network.

Without LOCAL the port of this machine has the same number; with 0 it is any that
is free. The first lines of output say which; with --json each is a document. It
is the gateway that connects, so one has to run.`,
		Example: `  corral sandbox forward main 8080
  corral sandbox forward main 8080:80 5432:0`,
		ValidArgsFunction: first(a.completeKnownSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return corral.Errorf(corral.ErrInvalid, "see "+cmd.CommandPath()+" --help", "%s wants the name of a sandbox and at least one port", cmd.CommandPath())
			}
			var list []*forward
			for _, arg := range args[1:] {
				f, err := parseForward(arg)
				if err != nil {
					return err
				}
				f.Sandbox = args[0]
				list = append(list, f)
			}
			err := a.forward(cmd.Context(), agent, args[0], list)
			if interruptedByUser(err) { // as it is meant to end
				return nil
			}
			return err
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "`NAME`: whose sandbox it is (default its owner)")
	return withJSON(cmd)
}

// A forward is a port of this machine that leads to one inside a sandbox.
type forward struct {
	Sandbox string `json:"sandbox"`
	Port    int    `json:"port"`    // inside
	Address string `json:"address"` // on this machine

	local    int
	listener net.Listener
}

// parseForward reads PORT[:LOCAL].
func parseForward(text string) (*forward, error) {
	inside, local, both := strings.Cut(text, ":")
	if !both {
		local = inside
	}
	f := &forward{}
	var err, lerr error
	f.Port, err = strconv.Atoi(inside)
	f.local, lerr = strconv.Atoi(local)
	if err != nil || lerr != nil || f.Port < 1 || f.Port > 65535 || f.local < 0 || f.local > 65535 {
		return nil, corral.Errorf(corral.ErrInvalid, "write the port inside the sandbox, and after a colon that of this machine: 8080, 8080:80 or 8080:0", "%.40q is no port to forward", text)
	}
	return f, nil
}

// forward serves until ctx ends or the first signal.
func (a *app) forward(ctx context.Context, agent, name string, list []*forward) error {
	return a.withClient(ctx, agent, func(ctx context.Context, c *client.Client) error {
		s, err := c.Sandbox(ctx, name)
		if err != nil {
			return err
		}
		if agent == "" && s.Agent != "" {
			if c, err = a.connect(s.Agent); err != nil {
				return err
			}
			defer c.Close()
		}
		defer func() {
			for _, f := range list {
				if f.listener != nil {
					f.listener.Close()
				}
			}
		}()
		for _, f := range list {
			f.listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.local)))
			if err != nil {
				return corral.Errorf(corral.ErrUnavailable, fmt.Sprintf("give another port of this machine: %d:0 takes any that is free", f.Port), "cannot listen for port %d: %w", f.Port, err)
			}
			f.Address = f.listener.Addr().String()
		}
		for _, f := range list {
			if a.json() {
				err = a.printJSON(f, nil)
			} else {
				err = a.printLine(fmt.Sprintf("%s leads to port %d of %s", f.Address, f.Port, f.Sandbox))
			}
			if err != nil {
				return err
			}
		}
		return a.serveForwards(ctx, c, list)
	})
}

func (a *app) serveForwards(ctx context.Context, c *client.Client, list []*forward) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v := &forwarder{app: a, client: c}
	var wg sync.WaitGroup
	for _, f := range list {
		defer context.AfterFunc(ctx, func() { f.listener.Close() })()
		wg.Go(func() {
			for {
				conn, err := f.listener.Accept()
				if err != nil {
					cancel(corral.Errorf(corral.ErrUnavailable, "", "cannot accept connections on %s: %w", f.Address, err))
					return
				}
				wg.Go(func() { v.serve(ctx, f, conn.(*net.TCPConn)) })
			}
		})
	}
	<-ctx.Done()
	wg.Wait()
	return cmp.Or(context.Cause(ctx), ctx.Err())
}

type forwarder struct {
	app    *app
	client *client.Client
	mu     sync.Mutex // for what is said
}

// dialLimit bounds the way to the port.
const dialLimit = 30 * time.Second

// serve connects one connection to a port, until both have ended.
func (v *forwarder) serve(ctx context.Context, f *forward, conn *net.TCPConn) {
	defer conn.Close()
	dialing, cancel := context.WithTimeout(ctx, dialLimit)
	port, err := v.client.DialPort(dialing, f.Sandbox, f.Port)
	cancel()
	if err == nil {
		raw, early := port.Detach()
		err = tunnel.Join(ctx, tunnel.End{Conn: conn}, tunnel.End{Conn: raw.(tunnel.Conn), Early: early}) // TCP, TLS or a Unix socket: each ends by halves
	} else {
		_ = conn.SetLinger(0) // the caller sees that it was refused, and no end of an answer
	}
	if err != nil && ctx.Err() == nil {
		v.warn(f, err)
	}
}

func (v *forwarder) warn(f *forward, err error) {
	text := fmt.Sprintf("A connection to port %d of %s: %v", f.Port, f.Sandbox, err)
	if errors.Is(err, corral.ErrNotListening) || errors.Is(err, errors.ErrUnsupported) {
		text = err.Error()
	}
	if hint := corral.Hint(err); hint != "" {
		text += " (" + hint + ")"
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.app.warn(text)
}
