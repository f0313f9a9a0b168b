//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"golang.org/x/sync/errgroup"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/fleet/broker"
	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// What this program is in processes of its own, by its first argument: nodes and
// a gateway share no memory and no scheduler with what measures them.
const (
	roleNodes   = "be-nodes"
	roleGateway = "be-gateway"
	rolePrint   = "print"
)

// asChild reports whether this process is such a child; if so, it has done what
// it is for.
func asChild(args []string) (is bool, err error) {
	if len(args) == 0 {
		return false, nil
	}
	switch rest := args[1:]; {
	case args[0] == roleNodes && len(rest) == 0:
		return true, beNodes(os.Stdin)
	case args[0] == roleGateway && len(rest) == 1:
		return true, beGateway(rest[0], os.Stdin, os.Stdout)
	case args[0] == rolePrint && len(rest) == 1:
		n, err := strconv.ParseInt(rest[0], 10, 64)
		if err != nil {
			return true, err
		}
		return true, printBytes(os.Stdout, n)
	}
	return false, nil
}

// A child is such a process. It ends with its standard input.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
	said said
}

// said collects what programs say.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buf.Len() > 16<<10 {
		s.buf.Reset()
	}
	return s.buf.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func (s *site) startChild(args ...string) (_ *child, err error) {
	c := &child{cmd: exec.Command(s.self, args...)}
	c.cmd.Stderr = &c.said
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = json.NewDecoder(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	return c, nil
}

// tell sends it something.
func (c *child) tell(v any) error { return c.fault(json.NewEncoder(c.in).Encode(v)) }

// hear receives something.
func (c *child) hear(v any) error { return c.fault(c.out.Decode(v)) }

func (c *child) fault(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", c.cmd.Args[1], err, c.said.String())
}

// Close ends it.
func (c *child) Close() error {
	return c.fault(errors.Join(c.in.Close(), c.cmd.Wait()))
}

// An order says what nodes to be, and of whom.
type order struct {
	Nodes                         int
	Address, Fingerprint, Gateway string
	// What the nodes run commands with. Without a StateDir they run none.
	StateDir, Workspace, Warden string
	Environ                     []string
}

// beNodes reads an order and follows it until its input ends.
func beNodes(in io.Reader) (err error) {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	var ex corral.Executor = nothing{}
	if o.StateDir != "" {
		host, err := hostexec.New(hostexec.Config{StateDir: o.StateDir, Workspace: o.Workspace, WardenPath: o.Warden, Environ: o.Environ})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, host.Close()) }()
		ex = host
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	nodes, ctx := errgroup.WithContext(ctx)
	dialling := make(chan struct{}, 16) // no more at a time
	for range o.Nodes {
		nodes.Go(func() error { return o.serve(ctx, ex, dialling) })
	}
	go func() { // ends with this process
		_, _ = io.Copy(io.Discard, in) // nothing more is said
		cancel()
	}()
	return nodes.Wait()
}

// serve is one node.
func (o *order) serve(ctx context.Context, ex corral.Executor, dialling chan struct{}) error {
	key, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	id, err := key.PublicKey()
	if err != nil {
		return err
	}
	pinned, err := broker.Pinned(o.Fingerprint, key)
	if err != nil {
		return err
	}
	dialling <- struct{}{}
	conn, err := fabric.Connect(ctx, func(option nats.Option) (*nats.Conn, error) {
		return nats.Connect(o.Address, append(fabric.ConnectOptions(nil), append(pinned, option)...)...)
	}, func(error) {})
	<-dialling
	if err != nil {
		return err
	}
	defer conn.Close()
	return fabric.Serve(ctx, conn, fabric.NodeConfig{
		ID: id, Executor: ex, GatewayKeys: []string{o.Gateway}, About: fabric.Hello{OS: runtime.GOOS, Arch: runtime.GOARCH},
	})
}

// nothing is the Executor of nodes that run nothing.
type nothing struct{}

func (nothing) Start(context.Context, corral.Command) (corral.Process, error) {
	return nil, corral.Errorf(corral.ErrUnavailable, "", "this node runs nothing")
}

func (nothing) Attach(context.Context, string) (corral.Process, error) {
	return nil, corral.Errorf(corral.ErrNotFound, "", "this node runs nothing")
}

// A count asks a gateway what it needs as soon as so many nodes are online and
// have been idle for a while.
type count struct {
	Nodes int
	Idle  time.Duration
}

// A need is a gateway's memory after its garbage was collected, in bytes.
type need struct {
	Resident int64 // VmRSS
	Go       int64 // of it what Go uses for values and stacks
}

// beGateway is a gateway's side of nodes. It says how it is reached, and then
// what memory it needs as often as it is asked, until its input ends.
func beGateway(dir string, in io.Reader, out io.Writer) (err error) {
	f, err := openFleet(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	said := json.NewEncoder(out)
	if err := said.Encode(f.order(0)); err != nil {
		return err
	}
	for asked := json.NewDecoder(in); ; {
		var c count
		switch err := asked.Decode(&c); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := f.await(context.Background(), c.Nodes); err != nil {
			return err
		}
		time.Sleep(c.Idle)
		n, err := needed()
		if err != nil {
			return err
		}
		if err := said.Encode(n); err != nil {
			return err
		}
	}
}

func needed() (need, error) {
	debug.FreeOSMemory() // and collects it first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return need{}, err
	}
	return need{Resident: int64(statusMB(status, "VmRSS") * 1e6), Go: int64(m.HeapInuse + m.StackInuse)}, nil
}

// printBytes writes n bytes which look like chance and are always the same: what
// is lost, repeated or in another order shows in their sum.
func printBytes(w io.Writer, n int64) error {
	b, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		return err
	}
	stream := cipher.NewCTR(b, make([]byte, aes.BlockSize))
	zeros, buf := make([]byte, pieceSize), make([]byte, pieceSize)
	for n > 0 {
		k := min(n, pieceSize)
		stream.XORKeyStream(buf[:k], zeros[:k])
		if _, err := w.Write(buf[:k]); err != nil {
			return err
		}
		n -= k
	}
	return nil
}
