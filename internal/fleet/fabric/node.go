package fabric

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"golang.org/x/time/rate"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/turn"
)

// NodeConfig configures a node. ID, Executor and GatewayKeys are required.
type NodeConfig struct {
	ID       string
	Executor corral.Executor
	// GatewayKeys are the public nkeys of the gateways that may use the node.
	GatewayKeys []string
	// About is sent in every hello: Program, OS, Arch, Host and Features.
	About Hello
	// Running counts the running processes, for hellos. Nil: that of Executor, if it
	// has such a method.
	Running func() int
	// Features returns further features, which may change. Hellos have them after those
	// of About. Nil: those of Executor, if it has such a method.
	Features func() []string
	// Heartbeat is the time between two hellos. 0: the constant of that name.
	Heartbeat time.Duration
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// A Guarded is an executor with a policy of its own, as a node should have. The agent
// is a gateway's agent, and may be empty.
type Guarded interface {
	corral.Executor
	// StartFor starts an agent's command. The command's Security and Ask are the least
	// strictness that the gateway wants. Its Grant is the gateway's statement about the
	// approval.
	StartFor(ctx context.Context, agent string, cmd corral.Command) (corral.Process, error)
	// Decide returns the decision about such a start as JSON, of at most MaxDecision
	// bytes. It starts nothing and asks for no approval.
	Decide(ctx context.Context, agent string, cmd corral.Command) ([]byte, error)
}

// MaxDecision bounds a decision of a Guarded, in bytes.
const MaxDecision = 48 << 10

// Bounds of a node.
const (
	maxRequests   = 4096 // answered at a time
	maxWaits      = 3072 // of them; the others are for what is answered soon
	maxAssemblies = 64
	maxAssembled  = 64 << 20 // bytes

	readerIdle = time.Minute      // removes a reader without grants
	writeIdle  = 30 * time.Second // ends a write without input
)

// node is the state of one Serve.
type node struct {
	id    string
	boot  string
	now   func() time.Time
	exec  corral.Executor
	keys  map[string]nkeys.KeyPair
	about Hello
	every time.Duration   // between two hellos
	runs  func() int      // may be nil
	can   func() []string // may be nil
	conn  *Link
	log   *slog.Logger
	warns *rate.Limiter // limits log lines, which any sender can cause,
	asked *rate.Limiter // and requested hellos

	ctx   context.Context
	owned sync.WaitGroup
	work  chan func()   // to idle workers
	whos  chan struct{} // a gateway wants a hello

	mu       sync.Mutex
	closed   bool
	replays  replays
	epochs   epochs
	parts    map[string]*assembly
	partSize int
	requests int
	starts   map[string]*starting
	readers  map[string]*reader
	bigs     int // buffers of MaxData in use
	writes   map[string]*write
	open     int                // writes that have not ended
	over     []string           // keys of writes that have, the oldest first
	turns    turn.Keyed[string] // to write to a process: one at a time
	ports    map[string]*port
}

// Serve exports an executor as a node until ctx ends. The caller owns the connection;
// make it with ConnectOptions. Commands outlive Serve wherever they outlive their
// executor.
func Serve(ctx context.Context, conn *Link, cfg NodeConfig) error {
	n, err := newNode(conn, cfg)
	if err != nil {
		return err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	n.ctx = life
	connected, unwatch := conn.Connected()
	defer unwatch()
	// Bursts are bounded by the requests that gateways may have open at a time.
	ear, err := conn.Listen(NodeSubjects(n.id), 64<<10, 128<<20, n.receive)
	if err != nil {
		return corral.Errorf(corral.ErrUnavailable, "", "node %s cannot listen for requests: %w", n.id, err)
	}
	for range workers {
		n.owned.Go(n.worker)
	}
	n.live(ctx, connected)
	err = ear.Close()

	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	cancel()
	n.closePorts()
	n.owned.Wait()
	n.about.Leaving = true
	n.hello()
	if c := conn.Conn(); c.IsConnected() { // sends the last messages before the caller closes the connection
		_ = c.FlushTimeout(time.Second)
	}
	return err
}

func newNode(conn *Link, cfg NodeConfig) (*node, error) {
	if err := ValidateNodeID(cfg.ID); err != nil {
		return nil, err
	}
	n := &node{
		id: cfg.ID, boot: corral.NewID(), now: cfg.Now, exec: cfg.Executor, conn: conn, about: cfg.About, runs: cfg.Running, can: cfg.Features, log: cfg.Log,
		keys: map[string]nkeys.KeyPair{}, warns: rate.NewLimiter(5, 20), asked: rate.NewLimiter(10, 50), whos: make(chan struct{}, 1),
		work: make(chan func()), parts: map[string]*assembly{}, starts: map[string]*starting{}, readers: map[string]*reader{},
		writes: map[string]*write{}, ports: map[string]*port{},
	}
	n.log = cmp.Or(n.log, slog.New(slog.DiscardHandler))
	if n.now == nil {
		n.now = time.Now
	}
	for _, k := range cfg.GatewayKeys {
		key, err := nkeys.FromPublicKey(k)
		if err != nil {
			return nil, corral.Errorf(corral.ErrInvalid, "pair the node again", "%q is no key of a gateway: %w", clip(k, maxNodeID), err)
		}
		n.keys[k] = key
	}
	if x, ok := cfg.Executor.(interface{ Running() int }); ok && n.runs == nil {
		n.runs = x.Running
	}
	if x, ok := cfg.Executor.(interface{ Features() []string }); ok && n.can == nil {
		n.can = x.Features
	}
	if _, ok := cfg.Executor.(PortDialer); ok {
		n.about.Features = append(slices.Clone(n.about.Features), FeaturePorts)
	}
	n.every = cfg.Heartbeat
	if n.every <= 0 {
		n.every = Heartbeat
	}
	n.about.Min, n.about.Max, n.about.Boot, n.about.Every = Version, Version, n.boot, n.every.Milliseconds()
	return n, nil
}

// live says hello at every connection and heartbeat, and removes unused readers and
// writes.
func (n *node) live(ctx context.Context, connected <-chan struct{}) {
	tick := time.NewTicker(n.every)
	defer tick.Stop()
	n.hello()
	for {
		select {
		case <-ctx.Done():
			return
		case <-connected:
			n.about.Link++
			n.hello()
			n.doubtPorts()
		case <-n.whos:
			n.hello()
		case <-tick.C:
			n.hello()
			n.sweep(time.Now())
		}
	}
}

func (n *node) hello() {
	running := 0
	if n.runs != nil {
		running = n.runs()
	}
	about := n.about
	about.Load, about.Epoch, about.Clock = machineLoad(running), n.epoch(), n.now().UnixMilli()
	if n.can != nil {
		about.Features = slices.Concat(about.Features, n.can())
	}
	n.publish(HelloSubject(n.id), mustJSON(about))
}

// requestHello makes live send a hello.
func (n *node) requestHello() {
	turn.Offer(n.whos, struct{}{})
}

// publish sends a message if it can: every lost message is asked for again.
func (n *node) publish(subject string, b []byte) {
	if err := n.conn.Conn().Publish(subject, b); err != nil {
		n.log.Debug("not sent", "subject", subject, "error", err)
	}
}

// warn logs a sender's misbehaviour, at a limited rate.
func (n *node) warn(text string, args ...any) {
	if n.warns.Allow() {
		n.log.Warn(text, args...)
	}
}

// workers is the number of goroutines that wait for work. They keep their large stacks:
// to grow a new stack takes a tenth of the time of a request.
const workers = 4

// spawnLocked runs f in one of the goroutines that Serve waits for. n.mu is
// held.
func (n *node) spawnLocked(f func()) {
	if n.closed {
		return
	}
	select {
	case n.work <- f: // an idle worker takes it
	default:
		n.owned.Go(f)
	}
}

func (n *node) worker() {
	for {
		select {
		case f := <-n.work:
			f()
		case <-n.ctx.Done():
			return
		}
	}
}

// receive gets every message to the node, one at a time. It never blocks.
func (n *node) receive(m *nats.Msg) {
	switch strings.TrimPrefix(m.Subject, prefixNode+n.id) {
	case ".req":
		n.request(m.Data)
	case ".part":
		n.part(m.Data)
	case ".who":
		if !n.asked.Allow() {
			n.warn("refused to say hello so often")
			return
		}
		n.requestHello()
	default:
		n.warn("refused a message on a subject that means nothing", "subject", m.Subject)
	}
}

// execute acts upon a complete and genuine request, once.
func (n *node) execute(e *Envelope) {
	n.mu.Lock()
	switch n.replays.record(&e.Header, n.now()) {
	case full:
		n.mu.Unlock()
		n.refuse(e, RefusedBusy, corral.Errorf(corral.ErrUnavailable, "try again in some minutes", "too many gateways have used node %s in a short time", n.id))
		return
	case again:
		n.mu.Unlock()
		n.repeat(e)
		return
	case fresh:
	}
	if !e.answered() {
		n.mu.Unlock()
		n.bulk(e)
		return
	}
	defer n.mu.Unlock()
	if n.requests >= maxRequests || e.Op == OpWait && n.requests >= maxWaits {
		b := EncodeAnswer(Answer{Boot: n.boot, Refused: RefusedBusy, Error: EncodeError(
			corral.Errorf(corral.ErrUnavailable, "try again soon", "node %s has %d requests to answer", n.id, n.requests))})
		n.replays.note(&e.Header, b)
		n.publish(ToGateway(e.Life, n.id, KindAnswer, e.Seq), b)
		n.warn("refused a request", "reason", RefusedBusy, "op", e.Op, "process", e.ID, "gateway", e.Key, "requests", n.requests)
		return
	}
	n.requests++
	if e.Op == OpStart {
		n.startsLocked(e.ID)
	}
	n.spawnLocked(func() { n.answer(e) })
}

// repeat sends the answer to a request that was accepted before.
func (n *node) repeat(e *Envelope) {
	n.mu.Lock()
	b, known := n.replays.answer(&e.Header)
	w := n.writes[writeKey(e)]
	n.mu.Unlock()
	switch {
	case b != nil:
		n.publish(ToGateway(e.Life, n.id, KindAnswer, e.Seq), b)
	case known: // the answer is still to come
	case e.Op == OpOpen && w != nil:
		w.report()
	default:
		n.refuse(e, RefusedReplay, nil)
	}
}

func (n *node) answer(e *Envelope) {
	a := n.do(e)
	a.Boot = n.boot
	silent := n.ctx.Err() != nil && a.Error != nil // the gateway will ask the node's next life
	b := EncodeAnswer(a)
	n.mu.Lock()
	n.requests--
	if e.Op == OpStart {
		n.startedLocked(e.ID)
	}
	n.replays.note(&e.Header, b)
	n.mu.Unlock()
	if !silent {
		n.publish(ToGateway(e.Life, n.id, KindAnswer, e.Seq), b)
	}
}

// do carries out a request with an answer.
func (n *node) do(e *Envelope) Answer {
	fail := func(err error) Answer { return Answer{Error: EncodeError(err)} }
	if e.Op == OpStart || e.Op == OpDecide {
		agent, cmd, read, err := DecodeStart(e.Body)
		if err == nil && cmd.ID != e.ID {
			err = corral.Errorf(corral.ErrInvalid, "", "the request is about process %s and its command is %s", e.ID, cmd.ID)
		}
		if err != nil {
			return fail(err)
		}
		if e.Op == OpDecide {
			return n.decide(agent, cmd)
		}
		p, err := n.start(agent, cmd)
		if err != nil {
			return fail(err)
		}
		if read != nil && !read.Close {
			n.grant(e, *read, p)
		}
		return answerInfo(p)
	}
	if e.Op == OpDial {
		return n.dial(e)
	}
	p, err := n.attach(n.ctx, e.Ref)
	if err != nil {
		if e.Op == OpRemove && errors.Is(err, corral.ErrNotFound) {
			return Answer{} // removed before
		}
		return fail(err)
	}
	switch e.Op {
	case OpAttach:
		return answerInfo(p)
	case OpWait:
		ctx, cancel := context.WithTimeout(n.ctx, waitStep)
		defer cancel()
		exit, err := p.Wait(ctx)
		switch {
		case err == nil:
			return Answer{Exit: &exit}
		case ctx.Err() != nil && n.ctx.Err() == nil:
			return Answer{Pending: true}
		}
		return fail(err)
	case OpStat:
		st, err := p.Log().Stat(n.ctx)
		if err != nil {
			return fail(err)
		}
		return Answer{Stat: &st}
	case OpSignal:
		var s Signal
		if err = unmarshal(e.Body, &s); err == nil {
			err = p.Signal(n.ctx, s.Signal)
		}
	case OpResize:
		var size corral.Size
		if err = unmarshal(e.Body, &size); err == nil {
			err = p.Resize(n.ctx, size)
		}
	case OpEOF:
		err = p.CloseStdin(n.ctx)
	case OpRemove:
		err = p.Remove(n.ctx)
	default:
		err = corral.Errorf(errors.ErrUnsupported, "upgrade Corral on the node", "node %s does not know the operation %q", n.id, clip(string(e.Op), 32))
	}
	if err != nil {
		return fail(err)
	}
	return Answer{}
}

// start starts a command, under the node's own policy if it has one.
func (n *node) start(agent string, cmd corral.Command) (corral.Process, error) {
	if g, ok := n.exec.(Guarded); ok {
		return g.StartFor(n.ctx, agent, cmd)
	}
	return n.exec.Start(n.ctx, cmd)
}

func (n *node) decide(agent string, cmd corral.Command) Answer {
	g, ok := n.exec.(Guarded)
	if !ok {
		return Answer{Error: EncodeError(corral.Errorf(errors.ErrUnsupported, "", "node %s has no policy of its own", n.id))}
	}
	b, err := g.Decide(n.ctx, agent, cmd)
	if err == nil && len(b) > MaxDecision {
		err = fmt.Errorf("the decision has %d bytes, more than %d", len(b), MaxDecision)
	}
	if err != nil {
		return Answer{Error: EncodeError(err)}
	}
	return Answer{Decision: b}
}

// starting counts the starts of one ID that are under way.
type starting struct {
	n    int
	done chan struct{}
}

func (n *node) startsLocked(id string) {
	s := n.starts[id]
	if s == nil {
		s = &starting{done: make(chan struct{})}
		n.starts[id] = s
	}
	s.n++
}

func (n *node) startedLocked(id string) {
	if s := n.starts[id]; s != nil {
		if s.n--; s.n == 0 {
			close(s.done)
			delete(n.starts, id)
		}
	}
}

// attach finds a process, and waits for one that is being started, or a connection to a
// port. So ErrNotFound is certain.
func (n *node) attach(ctx context.Context, ref Ref) (corral.Process, error) {
	if p := n.portOf(ref.ID); p != nil {
		return p, nil
	}
	n.mu.Lock()
	s := n.starts[ref.ID]
	n.mu.Unlock()
	if s != nil {
		select {
		case <-s.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("process %s is being started: %w", ref.ID, ctx.Err())
		}
	}
	p, err := n.exec.Attach(ctx, ref.ID)
	if err == nil {
		err = ref.check(p)
	}
	return p, err
}

// sweep ends readers and writes that no gateway uses any more.
func (n *node) sweep(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.readers {
		if r.idle(now) > readerIdle {
			r.cancel()
		}
	}
	for _, w := range n.writes {
		if w.idle(now) > writeIdle {
			w.cancel()
		}
	}
	n.sweepParts(n.now())
}
