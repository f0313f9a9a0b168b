package node

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/fleet/join"
	"github.com/corral-exec/corral/internal/fleet/pairing"
)

// ErrRejected is the cause of the corral.ErrDenied with which Run ends if an
// operator rejects the machine.
var ErrRejected = errors.New("the gateway's operator does not want this machine as a node")

// Config of Run. State and Executor are required.
type Config struct {
	State    *State // with a gateway chosen: see State.Use
	Executor corral.Executor
	Hello    pairing.Hello // the machine's description of itself when it asks
	Host     string        // the machine's name, which it says while it is a node
	// Token is a setup token: with it the machine needs no approval. It is used until
	// the machine is a node, and not afterwards.
	Token string
	// Changed is called with each new status, one after the other. It must not block.
	Changed func(Status)
	Setup   Setup // shown by corral node status
	Log     *slog.Logger

	again time.Duration // how often it asks; 0: askAgain
}

// lookAgain is how often the connection is checked, in case that a notification was
// lost.
const lookAgain = 5 * time.Second

// askAgain is how often a connected node asks for its state: its name may have changed.
const askAgain = 5 * time.Minute

// life is the state of one Run.
type life struct {
	cfg    Config
	state  *State
	log    *slog.Logger
	record Record

	troubles chan error // of attempts to connect again; nil: the connection is lost
	trouble  error      // the latest

	verdicts chan verdict
	served   chan error
	asking   task
	serving  task
	serves   atomic.Bool // serving has begun, and was not stopped
}

// A verdict is the gateway's answer. The last one to a request has an error, or
// approves.
type verdict struct {
	join.Verdict
	last bool
	err  error
}

// A task runs beside the loop of a life.
type task struct {
	cancel context.CancelFunc // nil: not running
	done   chan struct{}
}

func (t *task) start(do func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.cancel, t.done = cancel, done
	go func() {
		defer close(done)
		do(ctx)
	}()
}

func (t *task) running() bool { return t.cancel != nil }

// stop ends the task, and waits for its end.
func (t *task) stop() {
	if t.running() {
		t.cancel()
		<-t.done
		t.cancel = nil
	}
}

// Run is a node until ctx ends, which is no error. The package doc lists the other
// ends.
func Run(ctx context.Context, cfg Config) error {
	n := &life{
		cfg: cfg, state: cfg.State, log: cfg.Log, verdicts: make(chan verdict), served: make(chan error), troubles: make(chan error, 1),
		record: Record{PID: os.Getpid(), Version: cfg.Hello.Version, StartedAt: now(), Setup: cfg.Setup},
	}
	n.log = cmp.Or(n.log, slog.New(slog.DiscardHandler))
	if err := n.state.save(); err != nil {
		return err
	}
	defer func() {
		if err := os.Remove(n.state.path(recordFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
			n.log.Warn("what this program said of itself is left", "error", err)
		}
	}()
	n.set(Status{Phase: Connecting})
	conn, err := n.connect(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	n.log.Info("connected to the gateway", "address", conn.Conn().ConnectedUrlRedacted())
	connected, unwatch := conn.Connected()
	defer func() {
		unwatch()
		n.asking.stop()
		n.serving.stop()
		n.serves.Store(false)
		conn.Close()
	}()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	again := time.NewTicker(cmp.Or(n.cfg.again, askAgain))
	defer again.Stop()
	asked := false // over this connection
	for {
		switch c := conn.Conn(); {
		case !c.IsConnected():
			n.cut(c)
		case !asked:
			asked, n.trouble = true, nil
			n.ask(conn)
			if n.state.Paired() {
				n.serve(conn)
			} else {
				n.set(Status{Phase: Waiting})
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-connected:
			asked = false
		case <-look.C:
		case <-again.C:
			asked = asked && (!n.state.Paired() || n.asking.running()) // an answer may take longer than that
		case n.trouble = <-n.troubles:
		case v := <-n.verdicts:
			err = n.handle(conn, v)
		case err = <-n.served:
		}
		if err != nil {
			return err
		}
	}
}

// cut notes that the connection is lost. Serving goes on after the reconnect.
func (n *life) cut(conn *nats.Conn) {
	err := conn.LastError()
	if errors.Is(err, nats.ErrPermissionViolation) {
		err = nil // about the lost connection
	}
	if err == nil {
		err = n.trouble
	}
	if err == nil {
		n.set(Status{Phase: Connecting})
		return
	}
	err = n.unreachable(err)
	n.set(Status{Phase: Connecting, Error: err.Error(), Hint: corral.Hint(err)})
}

// ask asks whether the machine is a node, or can become one.
func (n *life) ask(conn *fabric.Link) {
	n.asking.stop()
	token := n.cfg.Token
	if !n.state.TakesToken() {
		token = ""
	}
	hello := n.hello()
	n.asking.start(func(ctx context.Context) {
		tell := func(v verdict) {
			select {
			case n.verdicts <- v:
			case <-ctx.Done():
			}
		}
		v, err := join.Request(ctx, join.Options{
			Conn: conn, Key: n.state.key, Gateway: n.state.line.Key, Hello: hello, Token: token,
			Shown: func(v join.Verdict) { tell(verdict{Verdict: v}) }, Log: n.log,
		})
		tell(verdict{Verdict: v, last: true, err: err})
	})
}

// hello describes the machine. A machine that had a name at this gateway wants it
// again, even if the gateway forgot it, unless the machine was told another name since.
func (n *life) hello() pairing.Hello {
	h := n.cfg.Hello
	if name, asked := n.state.to.Name, n.state.to.Asked; name != "" && (h.Name == n.cfg.Host || h.Name == asked) {
		h.Name = name
	}
	return h
}

// handle acts upon a verdict. An error ends the node.
func (n *life) handle(conn *fabric.Link, v verdict) error {
	switch {
	case !v.last:
		n.wait(v.Verdict)
		return nil
	case v.err == nil:
		n.asking.stop()
		return n.approved(conn, v.Verdict)
	case v.State == pairing.Rejected:
		n.revoked()
		return corral.Errorf(corral.ErrDenied, corral.Hint(v.err), "%w", ErrRejected)
	case !n.state.Paired():
		return v.err
	}
	// A node stays a node until the gateway says otherwise.
	n.asking.stop()
	n.log.Warn("the gateway cannot say whether this machine is still its node", "error", v.err, "hint", corral.Hint(v.err))
	return nil
}

// wait handles a verdict that is not final.
func (n *life) wait(v join.Verdict) {
	if v.State != pairing.Pending {
		if !n.state.Paired() && v.Error != nil {
			n.set(Status{Phase: Waiting, Error: v.Error.Message, Hint: v.Error.Hint})
		}
		return
	}
	n.revoked()
	n.set(Status{Phase: Waiting, Code: v.Code, ExpiresAt: v.Expires})
}

// revoked stops serving, if the machine was a node so far.
func (n *life) revoked() {
	n.serving.stop()
	n.serves.Store(false)
	if !n.state.Paired() {
		return
	}
	n.log.Warn("this machine is not a node of the gateway any more; what runs on it goes on, and nobody can reach it", "node", n.state.ID())
	if err := n.state.ended(); err != nil { // the next life is told again
		n.unsaved(err)
	}
}

func (n *life) unsaved(err error) { n.log.Warn(err.Error(), "hint", corral.Hint(err)) }

func (n *life) approved(conn *fabric.Link, v join.Verdict) error {
	if v.ID != n.state.ID() {
		return corral.Errorf(corral.ErrDenied, "look into what answers at the gateway's address", "the gateway takes this machine for node %s, and it is %s", v.ID, n.state.ID())
	}
	news, first := !n.state.Paired(), n.state.TakesToken()
	asked, told := n.hello().Name, n.cfg.Hello.Name
	if told == n.cfg.Host { // it was told no other name
		told = ""
	}
	if err := n.state.paired(v.Name, told); err != nil {
		if first {
			return err
		}
		n.unsaved(err)
	}
	if !news {
		n.set(Status{Phase: Serving})
		return nil
	}
	n.log.Info("this machine is a node now", "node", v.ID, "name", v.Name)
	if !strings.EqualFold(v.Name, asked) {
		n.log.Warn("the gateway calls this machine otherwise than it asked to be called", "name", v.Name, "asked", asked, "hint", "corral nodes rename on the gateway gives it another name")
	}
	// The message server sets permissions at the start of a connection.
	if err := conn.Conn().ForceReconnect(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return corral.Errorf(corral.ErrUnavailable, "", "cannot connect to the gateway again: %w", err)
	}
	return nil
}

// serve serves over the connection, across reconnects.
func (n *life) serve(conn *fabric.Link) {
	n.set(Status{Phase: Serving})
	if n.serving.running() {
		return
	}
	n.serves.Store(true)
	h := n.cfg.Hello
	n.log.Info("serving", "node", n.state.ID(), "name", n.state.to.Name)
	n.serving.start(func(ctx context.Context) {
		err := fabric.Serve(ctx, conn, fabric.NodeConfig{
			ID: n.state.ID(), Executor: n.cfg.Executor, GatewayKeys: []string{n.state.line.Key},
			About: fabric.Hello{Program: h.Version, OS: h.OS, Arch: h.Arch, Host: n.cfg.Host, Features: h.Features}, Log: n.log,
		})
		select {
		case n.served <- err:
		case <-ctx.Done():
		}
	})
}

// set records the node's status.
func (n *life) set(s Status) {
	old := n.record.Status
	if s.Since = old.Since; s == old {
		return
	}
	if s.Phase != old.Phase {
		s.Since = now()
	}
	n.record.Status = s
	if s.Error != "" && s.Error != old.Error {
		n.log.Warn(s.Error, "hint", s.Hint)
	}
	if err := writeJSON(n.state.path(recordFile), n.record, false); err != nil {
		n.log.Warn("what this program says of itself cannot be kept", "error", err)
	}
	if n.cfg.Changed != nil {
		n.cfg.Changed(s)
	}
}
