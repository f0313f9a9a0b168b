package join

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"golang.org/x/time/rate"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/fleet/pairing"
)

// Config of a Desk. All but Log is required.
type Config struct {
	Conn     *fabric.Link // the gateway's own
	Key      nkeys.KeyPair
	Registry *pairing.Registry
	// From returns the address of a key, as the message server sees it, or the zero
	// address if it is unknown.
	From func(nkey string) netip.Addr
	Log  *slog.Logger
}

// A Desk receives the requests of machines and answers them.
type Desk struct {
	cfg   Config
	ear   *fabric.Listener
	warns *rate.Limiter // limits log lines, which every sender can cause
	often rate.Sometimes

	mu     sync.Mutex
	nonces map[string]string        // by key, of waiting machines
	asks   map[string]*rate.Limiter // by key
}

// How often a machine may ask, per second and in a burst. Corral's machines ask every
// few seconds. Further messages are dropped, as if lost.
const asksRate, asksBurst = 5, 20

// maxWaiting bounds the keys that get a decision at once; the others get it when they
// ask again.
const maxWaiting = 1024

// maxQueued bounds the messages that wait for an answer.
const maxQueued = 1024

// Open makes a desk. Close ends it.
func Open(cfg Config) (*Desk, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	d := &Desk{cfg: cfg, warns: rate.NewLimiter(1, 10), often: rate.Sometimes{Interval: time.Minute}, nonces: map[string]string{}, asks: map[string]*rate.Limiter{}}
	ask, _ := fabric.PairSubjects("*")
	var err error
	if d.ear, err = cfg.Conn.Listen(ask, maxQueued, maxQueued*maxMessage, d.receive); err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "look at the log of the message server", "cannot listen to machines that ask to be nodes: %w", err)
	}
	return d, nil
}

// Close ends the desk.
func (d *Desk) Close() error {
	if err := d.ear.Close(); err != nil {
		return fmt.Errorf("cannot end listening to machines that ask to be nodes: %w", err)
	}
	return nil
}

// Changed tells a waiting machine the decision; it is for [pairing.Options].Changed.
func (d *Desk) Changed(c pairing.Change) {
	if c.Event != pairing.EventPaired && c.Event != pairing.EventRejected {
		return
	}
	d.mu.Lock()
	nonce, waits := d.nonces[c.Key]
	delete(d.nonces, c.Key)
	d.mu.Unlock()
	if !waits {
		return
	}
	v := Verdict{Nonce: nonce, State: pairing.Rejected, ID: pairing.ID(c.Key)}
	if c.Event == pairing.EventPaired {
		v.State, v.Name = pairing.Approved, c.Node.Name
	}
	d.tell(c.Key, v)
}

// receive handles the messages, one after the other.
func (d *Desk) receive(m *nats.Msg) {
	all, _ := fabric.PairSubjects("")
	key, ok := strings.CutPrefix(m.Subject, all)
	if !ok || pairing.ValidateKey(key) != nil {
		return // the server lets no client publish that
	}
	if !d.lets(key) {
		d.often.Do(func() {
			d.cfg.Log.Warn("a machine asks too often whether it is a node; the rest is dropped", "key", key)
		})
		return
	}
	ask, err := parseAsk(m.Data)
	if err != nil {
		if d.warns.Allow() {
			d.cfg.Log.Warn("a machine asks to be a node in a way that cannot be read", "key", key, "error", err)
		}
		return
	}
	// Store the nonce before the answer, since the answer may make the machine a node:
	// then Changed tells it, and its connection may be cut as soon as Changed returns.
	d.mu.Lock()
	if _, waits := d.nonces[key]; waits || len(d.nonces) < maxWaiting {
		d.nonces[key] = ask.Nonce
	}
	d.mu.Unlock()
	v := d.answer(key, ask)
	v.Nonce = ask.Nonce
	if v.State != pairing.Pending {
		d.mu.Lock()
		delete(d.nonces, key)
		d.mu.Unlock()
	}
	d.tell(key, v)
}

// lets reports whether a key may ask now.
func (d *Desk) lets(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.asks[key]
	if l == nil {
		if len(d.asks) >= maxWaiting { // a sender with many keys gains little with each
			clear(d.asks)
		}
		l = rate.NewLimiter(asksRate, asksBurst)
		d.asks[key] = l
	}
	return l.Allow()
}

func (d *Desk) answer(key string, ask Ask) Verdict {
	fail := func(err error) Verdict {
		if d.warns.Allow() {
			d.cfg.Log.Warn("a machine cannot be a node", "key", key, "error", err)
		}
		_, body := api.Encode(err)
		return Verdict{Error: &body.Error}
	}
	if ask.Version != Version {
		return fail(corral.Errorf(corral.ErrUnavailable, "use the same version of Corral on both sides",
			"the machine speaks version %d of pairing, and this gateway version %d", ask.Version, Version))
	}
	from := d.cfg.From(key)
	if id, paired := d.cfg.Registry.Authorize(key); paired {
		if err := d.cfg.Registry.Seen(key, from, ask.Hello); err != nil {
			return fail(err)
		}
		n, err := d.cfg.Registry.Node(id)
		if err != nil {
			return fail(err)
		}
		return Verdict{State: pairing.Approved, ID: n.ID, Name: n.Name}
	}
	if ask.Proof != "" {
		n, err := d.cfg.Registry.Redeem(ask.Proof, key, from, ask.Hello)
		if err != nil {
			return fail(err)
		}
		return Verdict{State: pairing.Approved, ID: n.ID, Name: n.Name}
	}
	q, err := d.cfg.Registry.Ask(key, from, ask.Hello)
	if err != nil {
		return fail(err)
	}
	return Verdict{State: q.State, Code: q.Code, ID: q.ID, Name: q.Name, Expires: q.ExpiresAt}
}

func (d *Desk) tell(key string, v Verdict) {
	v.Version = Version
	b, err := v.encode(d.cfg.Key, key)
	if err == nil {
		_, to := fabric.PairSubjects(key)
		err = d.cfg.Conn.Conn().Publish(to, b) // if it does not arrive, the machine asks again
	}
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		d.cfg.Log.Warn("a machine could not be told how its request went", "key", key, "error", err)
	}
}

// encodeAsk is for tests of both ends.
func encodeAsk(a Ask) ([]byte, error) { return json.Marshal(a) }
