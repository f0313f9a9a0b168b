package join

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/turn"
)

// Again is the time between two asks of a machine, until the answer is final.
const Again = 3 * time.Second

// Options of Request. Conn, Key and Gateway are required.
type Options struct {
	Conn    *fabric.Link
	Key     nkeys.KeyPair // the machine's; Conn was made with it
	Gateway string        // the gateway's public nkey
	Hello   pairing.Hello
	Token   string // a setup token; empty: an operator decides

	// Shown is called with each verdict that differs from the one before.
	Shown func(Verdict)
	Log   *slog.Logger
}

// Request asks until the machine is a node, and returns the verdict. The error is an
// ErrDenied if the machine is rejected, and ctx's error when that ends.
func Request(ctx context.Context, o Options) (Verdict, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	public, err := o.Key.PublicKey()
	if err != nil {
		return Verdict{}, err
	}
	ask := Ask{Version: Version, Hello: o.Hello}
	if o.Token != "" {
		if ask.Proof, err = pairing.Proof(o.Token, public, o.Gateway); err != nil {
			return Verdict{}, err
		}
	}
	where, heard := fabric.PairSubjects(public)
	answers := make(chan *nats.Msg, 16)
	ear, err := o.Conn.Listen(heard, cap(answers), cap(answers)*maxMessage, func(m *nats.Msg) { turn.Offer(answers, m) })
	if err != nil {
		return Verdict{}, corral.Errorf(corral.ErrUnavailable, "", "cannot listen to the gateway: %w", err)
	}
	defer func() { _ = ear.Close() }() // nothing is lost if that fails
	tick := time.NewTicker(Again)
	defer tick.Stop()
	asked := map[string]bool{}
	var last Verdict
	for {
		if ask.Nonce = corral.NewID(); len(asked) >= 8 {
			clear(asked)
		}
		asked[ask.Nonce] = true
		b, err := encodeAsk(ask)
		if err == nil {
			err = o.Conn.Conn().Publish(where, b)
		}
		if err != nil {
			o.Log.Debug("cannot ask the gateway now", "error", err)
		}
		for wait := true; wait; {
			select {
			case <-ctx.Done():
				return last, ctx.Err()
			case <-tick.C:
				wait = false
			case m := <-answers:
				v, err := parseVerdict(m.Data, o.Gateway, public)
				if err != nil {
					o.Log.Warn("another answers in the gateway's place", "error", err)
					continue
				}
				if !asked[v.Nonce] {
					continue // for an ask of an earlier life
				}
				if done, err := o.accept(v, &last, public); done {
					return v, err
				}
			}
		}
	}
}

// accept handles a verdict, and reports whether it is final.
func (o *Options) accept(v Verdict, last *Verdict, public string) (bool, error) {
	v.Nonce = ""
	news := v.State != last.State || v.Code != last.Code || v.Name != last.Name || (v.Error != nil) != (last.Error != nil)
	*last = v
	switch {
	case v.Error != nil:
		err := api.DecodeBody(500, *v.Error)
		if !errors.Is(err, corral.ErrUnavailable) {
			return true, err
		}
	case v.Version != Version:
		return true, corral.Errorf(corral.ErrUnavailable, "use the same version of Corral on both sides",
			"the gateway speaks version %d of pairing, and this machine version %d", v.Version, Version)
	case v.State == pairing.Approved:
		return true, nil
	case v.State == pairing.Rejected:
		return true, corral.Errorf(corral.ErrDenied, "ask the gateway's operator", "the gateway's operator does not want this machine as a node")
	case v.State == pairing.Pending:
		if want := pairing.Code(public, o.Gateway); v.Code != want {
			return true, corral.Errorf(corral.ErrDenied, lineHint, "the gateway shows the code %s, and this machine's is %s: another machine is in between", v.Code, want)
		}
	}
	if news && o.Shown != nil {
		o.Shown(v)
	}
	return false, nil
}
