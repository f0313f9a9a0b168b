package nodeexec

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"golang.org/x/time/rate"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/turn"
)

// DefaultPatience is how long a node may be away before calls give up.
const DefaultPatience = 30 * time.Second

// Config of a Fabric. Conn, Key and Paired are required.
type Config struct {
	// Conn is the connection to the message server. The caller closes it,
	// after the Fabric.
	Conn *fabric.Link
	// Key signs the requests to nodes. They know its public half from their pairing.
	Key nkeys.KeyPair
	// Paired lists the paired nodes. It is called often. It returns the same slice as
	// long as the nodes are the same, and never modifies a returned slice.
	Paired func() []Paired
	// Asking counts the machines that wait for approval, for the error of a gateway
	// without nodes. Nil: unknown.
	Asking func() int

	// Patience is how long a node may be away. 0: DefaultPatience.
	Patience time.Duration
	Log      *slog.Logger
}

// Paired is a node that an operator has approved.
type Paired struct {
	ID   string
	Name string // for people; may be empty
	// Addresses are the verified addresses of the node. The node's own claims do not
	// belong here: it could take another node's place.
	Addresses []string
	// Labels say which pools it belongs to. The operator sets them.
	Labels map[string]string
}

// poolBytes is the memory of a Fabric, in bytes, for output that was granted and not
// yet read.
const poolBytes = 32 << 20

// A Fabric is the nodes of a gateway. Every method may be called from any
// goroutine.
type Fabric struct {
	conn     *fabric.Link
	signer   *fabric.Signer
	paired   func() []Paired
	asking   func() int
	patience time.Duration
	log      *slog.Logger
	warns    warns

	life  string // names the subjects for answers
	calls atomic.Uint64
	bulks atomic.Uint64
	ids   atomic.Uint64 // of readers and writes

	listed atomic.Pointer[roster]

	ctx    context.Context
	cancel context.CancelFunc
	owned  sync.WaitGroup
	ears   []*fabric.Listener

	mu      sync.Mutex
	peers   map[string]*peer
	waiting map[uint64]waiter  // by the number of a call
	streams map[uint64]*stream // by the number of a reader
	inputs  map[uint64]*input  // by the number of a write
	seen    map[string]string  // process → node; bounded
	pool    int64
}

var _ corral.Nodes = (*Fabric)(nil)

// New makes a Fabric. Close ends it.
func New(cfg Config) (*Fabric, error) {
	signer, err := fabric.NewSigner(cfg.Key)
	if err != nil {
		return nil, err
	}
	f := &Fabric{
		conn: cfg.Conn, signer: signer, paired: cfg.Paired, asking: cfg.Asking, patience: cfg.Patience, log: cfg.Log, warns: newWarns(), life: corral.NewID(),
		peers: map[string]*peer{}, waiting: map[uint64]waiter{}, streams: map[uint64]*stream{}, inputs: map[uint64]*input{},
		seen: map[string]string{}, pool: poolBytes,
	}
	if f.patience <= 0 {
		f.patience = DefaultPatience
	}
	f.log = cmp.Or(f.log, slog.New(slog.DiscardHandler))
	f.ctx, f.cancel = context.WithCancel(context.Background())
	for _, s := range []struct {
		subject string
		handle  nats.MsgHandler
	}{{fabric.GatewaySubjects(f.life), f.receive}, {fabric.AllHellos, f.hello}} {
		// Honest nodes never send more than they were granted.
		l, err := f.conn.Listen(s.subject, 256<<10, 2*poolBytes, s.handle)
		if err != nil {
			_ = f.Close() // closes the listeners so far
			return nil, corral.Errorf(corral.ErrUnavailable, "look at the log of the message server", "cannot listen to nodes: %w", err)
		}
		f.ears = append(f.ears, l)
	}
	connected, unwatch := f.conn.Connected()
	f.owned.Go(func() {
		defer unwatch()
		for {
			select {
			case <-f.ctx.Done():
				return
			case <-connected: // messages on their way may be lost
				for _, p := range f.known() {
					p.reconnected()
				}
			}
		}
	})
	return f, nil
}

// Close releases the nodes. Commands go on.
func (f *Fabric) Close() error {
	f.mu.Lock()
	f.cancel() // nothing new is owned from here on
	f.mu.Unlock()
	var err error
	for _, l := range f.ears {
		err = errors.Join(err, l.Close())
	}
	f.owned.Wait()
	return err
}

func (f *Fabric) known() []*peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.peers))
}

// peer returns the state of a paired node.
func (f *Fabric) peer(id string) *peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.peers[id]
	if p == nil {
		p = &peer{f: f, id: id, talks: newThrottle(), rivals: rivals{warned: rate.Sometimes{Interval: toldOfDrops}}, changed: make(chan struct{})}
		f.peers[id] = p
	}
	return p
}

// receive handles all messages from nodes to this life of the gateway. It never blocks.
func (f *Fabric) receive(m *nats.Msg) {
	node, kind, n, ok := fabric.ParseToGateway(f.life, m.Subject)
	if !ok {
		f.warn("refused a message on a subject that means nothing", "subject", m.Subject)
		return
	}
	f.mu.Lock()
	p := f.peers[node]
	w, s, in := f.waiting[n], f.streams[n], f.inputs[n]
	f.mu.Unlock()
	switch {
	case p == nil:
		f.warn("refused a message of a node that was not asked anything", "node", node)
		return
	case !f.isPaired(node): // it may be connected still, to a server that is not the gateway's
		f.warnOfStranger(node)
		return
	}
	// Late answers are normal: requests are sent more than once.
	var known, awaited, others bool
	switch kind {
	case fabric.KindAnswer:
		known, awaited, others = n <= f.calls.Load(), w.ch != nil, w.ch != nil && w.peer != p
	case fabric.KindOutput:
		known, awaited, others = n <= f.ids.Load(), s != nil, s != nil && s.log.p.peer != p
	case fabric.KindInput:
		known, awaited, others = n <= f.ids.Load(), in != nil, in != nil && in.p.peer != p
	}
	switch {
	case (!awaited || others) && !p.talks.lets(p.talks.late, node, f.log):
		return
	case n == 0 || !known:
		f.warn("refused a node's message about what was never asked", "node", node, "subject", m.Subject)
		return
	case others:
		f.warn("refused a node's message about what another was asked", "node", node, "subject", m.Subject)
		return
	}
	nobody := len(m.Data) == 0 && m.Header.Get("Status") == "503"
	if !nobody {
		p.heardOf()
	}
	refuse := func(err error) {
		f.warn("refused a node's message that cannot be read", "node", node, "subject", m.Subject, "error", err)
	}
	switch {
	case nobody:
		p.away()
		if w.ch != nil {
			turn.Offer(w.ch, reply{nobody: true})
		}
	case kind == fabric.KindAnswer:
		a, err := fabric.ParseAnswer(m.Data)
		if err != nil {
			refuse(err)
			return
		}
		if a.Refused == fabric.RefusedEpoch {
			p.newEpoch(a.Boot, a.Epoch)
		}
		if w.ch != nil { // before the waiter reacts to the new life
			turn.Offer(w.ch, reply{answer: a})
		}
		if a.Refused == fabric.RefusedBoot {
			p.rebooted(a.Boot, a.Epoch)
		}
	case kind == fabric.KindOutput && s != nil:
		o, err := fabric.ParseOutput(m.Data)
		if err == nil {
			err = s.receive(o)
		}
		if err != nil {
			refuse(err)
		}
	case kind == fabric.KindInput && in != nil:
		a, err := fabric.ParseInputAck(m.Data, in.total)
		if err != nil {
			refuse(err)
			return
		}
		turn.Offer(in.acks, a) // one that does not fit is asked for again
	}
}

func (f *Fabric) hello(m *nats.Msg) {
	node, ok := fabric.ParseHello(m.Subject)
	if !ok {
		f.warn("refused a hello on a subject that means nothing", "subject", m.Subject)
		return
	}
	if !f.isPaired(node) {
		f.warnOfStranger(node)
		return
	}
	p := f.peer(node)
	if !p.talks.lets(p.talks.hellos, node, f.log) {
		return
	}
	h, err := fabric.ParseHelloBody(m.Data)
	if err != nil {
		f.warn("refused a node's hello that cannot be read", "node", node, "error", err)
		return
	}
	p.storeHello(h)
}

func (f *Fabric) isPaired(id string) bool {
	_, ok := f.roster().byID[id]
	return ok
}

// maxSeen bounds the processes whose node is remembered.
const maxSeen = 4096

func (f *Fabric) remember(process, node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.seen { // drop any: an entry only saves asking all nodes
		if len(f.seen) < maxSeen {
			break
		}
		delete(f.seen, id)
	}
	f.seen[process] = node
}

func (f *Fabric) forgetNodeOf(process string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.seen, process)
}

func (f *Fabric) closedError() error {
	return corral.Errorf(corral.ErrUnavailable, "", "this program lets go of its nodes")
}
