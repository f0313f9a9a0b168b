package fabric_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/natstest"
)

func newShare(t *testing.T) *fabric.Share {
	t.Helper()
	s, err := fabric.NewShare()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// agreement is one with the node, of which the node need not know.
func (r *rig) agreement(mine *fabric.Share) *fabric.Agreement {
	r.t.Helper()
	key, err := r.key.PublicKey()
	if err != nil {
		r.t.Fatal(err)
	}
	a, err := mine.Agree(r.told.Share, fabric.Parties{
		Node: nodeID, Boot: r.boot, Key: key, Life: r.life, NodeShare: r.told.Share, GatewayShare: mine.Public(),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// agreeing is a header of a signed request that asks to agree.
func (r *rig) agreeing(op fabric.Op, id string, mine *fabric.Share) fabric.Header {
	h := r.header(op, id)
	h.Epoch, h.Share, h.To = r.told.Epoch, mine.Public(), r.told.Share
	return h
}

// agree agrees with the node.
func (r *rig) agree() *fabric.Agreement {
	r.t.Helper()
	mine := newShare(r.t)
	h := r.agreeing(fabric.OpAttach, "none", mine)
	r.send(r.seal(h, nil)...)
	if a := r.answer(h.Seq); a.Refused != "" {
		r.t.Fatalf("%+v", a)
	}
	return r.agreement(mine)
}

// under makes a request under an agreement.
func (r *rig) under(a *fabric.Agreement, op fabric.Op, id string, body []byte) (message []byte, seq uint64) {
	r.t.Helper()
	r.seq++
	return sealAgreed(r.t, a, fabric.Header{Seq: r.seq, Epoch: r.told.Epoch, Op: op, ID: id}, body), r.seq
}

func sealAgreed(t *testing.T, a *fabric.Agreement, h fabric.Header, body []byte) []byte {
	t.Helper()
	m, err := a.Seal(h, body)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Whoever has agreed need not sign; and what comes again is acted upon once,
// however it was proven.
func TestAgreed(t *testing.T) {
	r := newRig(t)
	a := r.agree()
	m, seq := r.under(a, fabric.OpStart, "job", startBody(t, "job", "print"))
	for range 3 {
		r.send(m)
		if got := r.answer(seq); got.Info == nil || got.Info.ID != "job" {
			t.Fatalf("%+v", got)
		}
	}
	h := r.header(fabric.OpStart, "other")
	h.Seq = seq
	r.send(r.seal(h, startBody(t, "other", "print"))...)
	if got := r.answer(seq); got.Info == nil || got.Info.ID != "job" {
		t.Errorf("a signed request of the same number: %+v", got)
	}
	for _, op := range []fabric.Op{fabric.OpWait, fabric.OpStat, fabric.OpRemove} {
		m, seq := r.under(a, op, "job", nil)
		r.send(m)
		if got := r.answer(seq); got.Error != nil || got.Refused != "" {
			t.Errorf("%s: %+v", op, got)
		}
	}
	r.send(m)
	r.settled()
	if n := r.exec.Starts(); n != 1 {
		t.Errorf("%d commands ran", n)
	}
}

// Asking to agree again changes nothing; agreeing on something else replaces it.
func TestAgreeingAgain(t *testing.T) {
	r := newRig(t)
	mine := newShare(t)
	for range 2 {
		h := r.agreeing(fabric.OpAttach, "none", mine)
		r.send(r.seal(h, nil)...)
		r.answer(h.Seq)
	}
	first := r.agreement(mine)
	m, seq := r.under(first, fabric.OpStart, "job", startBody(t, "job", "print"))
	r.send(m)
	if got := r.answer(seq); got.Info == nil {
		t.Fatalf("%+v", got)
	}
	second := r.agree()
	for a, want := range map[*fabric.Agreement]fabric.Refusal{first: fabric.RefusedAgreement, second: ""} {
		m, seq := r.under(a, fabric.OpAttach, "job", nil)
		r.send(m)
		if got := r.answer(seq); got.Refused != want {
			t.Errorf("%+v, not %q", got, want)
		}
	}
}

// Not a bit of a request under an agreement can be another.
func TestAgreedBits(t *testing.T) {
	r := newRig(t)
	a := r.agree()
	m, seq := r.under(a, fabric.OpStart, "job", startBody(t, "job", "print"))
	for i := range m {
		for _, bit := range []byte{1, 0x80} {
			forged := bytes.Clone(m)
			forged[i] ^= bit
			r.send(forged)
		}
	}
	for _, cut := range []int{1, 17, 32, 33, 60, len(m) / 2, len(m) - 1} {
		r.send(m[:cut])
		r.send(m[cut:])
	}
	r.send(append(bytes.Clone(m), 0))
	r.settled()
	if n := r.exec.Starts(); n != 0 {
		t.Fatalf("%d commands ran", n)
	}
	r.send(m)
	got := r.answer(seq)
	for got.Refused != "" { // of those before
		got = r.answer(seq)
	}
	if got.Info == nil || r.exec.Starts() != 1 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(r.lines.String(), "refused a request") {
		t.Errorf("the log is\n%s", r.lines)
	}
}

// Whoever can send to a node and change what it is sent, such as the message
// server, agrees on nothing in the gateway's name, and nothing that the gateway
// agreed on is good for another.
func TestForgedAgreement(t *testing.T) {
	for _, tc := range []struct {
		name    string
		do      func(r *rig) uint64 // the number of what is refused; 0: it is not answered
		refused fabric.Refusal
		logged  string
	}{
		{"one that nobody asked for", func(r *rig) uint64 {
			m, seq := r.under(r.agreement(newShare(r.t)), fabric.OpStart, "job", startBody(r.t, "job", "print"))
			r.send(m)
			return seq
		}, fabric.RefusedAgreement, "reason=agreement"},
		{"a share in the gateway's words", func(r *rig) uint64 {
			mine, evil := newShare(r.t), newShare(r.t)
			h := r.agreeing(fabric.OpStart, "job", mine)
			m := r.seal(h, startBody(r.t, "job", "print"))[0]
			m = bytes.Replace(m, encode(r.t, mine.Public()), encode(r.t, evil.Public()), 1)
			r.send(m)
			if a := r.answer(h.Seq); a.Refused != fabric.RefusedKey {
				r.t.Errorf("%+v", a)
			}
			m, seq := r.under(r.agreement(evil), fabric.OpStart, "job", startBody(r.t, "job", "print"))
			r.send(m)
			return seq
		}, fabric.RefusedAgreement, "did not sign"},
		// The gateway was told of another's share, who would know the secret.
		{"a share in the node's words", func(r *rig) uint64 {
			mine, evil := newShare(r.t), newShare(r.t)
			h := r.agreeing(fabric.OpStart, "job", mine)
			h.To = evil.Public()
			r.send(r.seal(h, startBody(r.t, "job", "print"))...)
			return h.Seq
		}, fabric.RefusedKey, "another share than that of node n1"},
		{"and what would be agreed by it", func(r *rig) uint64 {
			mine, evil := newShare(r.t), newShare(r.t)
			h := r.agreeing(fabric.OpAttach, "job", mine)
			h.To = evil.Public()
			r.send(r.seal(h, nil)...)
			r.answer(h.Seq)
			key, err := r.key.PublicKey()
			if err != nil {
				r.t.Fatal(err)
			}
			a, err := evil.Agree(mine.Public(), fabric.Parties{
				Node: nodeID, Boot: r.boot, Key: key, Life: r.life, NodeShare: evil.Public(), GatewayShare: mine.Public(),
			})
			if err != nil {
				r.t.Fatal(err)
			}
			m, seq := r.under(a, fabric.OpStart, "job", startBody(r.t, "job", "print"))
			r.send(m)
			return seq
		}, fabric.RefusedAgreement, "reason=agreement"},
		{"a share with which everybody knows the secret", func(r *rig) uint64 {
			h := r.agreeing(fabric.OpStart, "job", newShare(r.t))
			h.Share = make([]byte, fabric.ShareLen)
			r.send(r.seal(h, startBody(r.t, "job", "print"))...)
			return h.Seq
		}, fabric.RefusedKey, "malformed message: the share"},
		{"a share that is none", func(r *rig) uint64 {
			h := r.agreeing(fabric.OpStart, "job", newShare(r.t))
			h.Share = []byte("short")
			r.send(r.seal(h, startBody(r.t, "job", "print"))...)
			return 0
		}, "", "shares of 5 and 32 bytes"},
		{"by another key", func(r *rig) uint64 {
			stranger, _ := natstest.NewKey(r.t)
			h := r.agreeing(fabric.OpStart, "job", newShare(r.t))
			r.send(sealBy(r.t, stranger, h, startBody(r.t, "job", "print"))...)
			return h.Seq
		}, fabric.RefusedKey, "not paired with the gateway of key"},
		{"another life of a gateway", func(r *rig) uint64 {
			a := r.agree()
			a.Life = "another"
			m, seq := r.under(a, fabric.OpStart, "job", startBody(r.t, "job", "print"))
			r.send(m)
			_ = seq // the other life is told
			return 0
		}, "", "did not sign"},
		{"another life of the node", func(r *rig) uint64 {
			a := r.agree()
			a.Boot = "earlier"
			m, seq := r.under(a, fabric.OpStart, "job", startBody(r.t, "job", "print"))
			r.send(m)
			return seq
		}, fabric.RefusedBoot, ""},
		{"number 0", func(r *rig) uint64 {
			a := r.agree()
			r.send(sealAgreed(r.t, a, fabric.Header{Epoch: r.told.Epoch, Op: fabric.OpStart, ID: "job"}, startBody(r.t, "job", "print")))
			if got := r.answer(0); got.Refused != fabric.RefusedReplay {
				r.t.Errorf("%+v", got)
			}
			return 0
		}, "", "replay"},
		{"an epoch that never was", func(r *rig) uint64 {
			a := r.agree()
			r.told.Epoch++
			m, seq := r.under(a, fabric.OpStart, "job", startBody(r.t, "job", "print"))
			r.send(m)
			return seq
		}, fabric.RefusedTime, "has not said of late"},
		{"no epoch", func(r *rig) uint64 {
			a := r.agree()
			r.told.Epoch = 0
			m, seq := r.under(a, fabric.OpStart, "job", startBody(r.t, "job", "print"))
			r.send(m)
			return seq
		}, fabric.RefusedTime, "has not said of late"},
		{"a signed epoch that never was", func(r *rig) uint64 {
			h := r.header(fabric.OpStart, "job")
			h.Epoch = 1
			r.send(r.seal(h, startBody(r.t, "job", "print"))...)
			return h.Seq
		}, fabric.RefusedTime, "has not said of late"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			seq := tc.do(r)
			if seq != 0 {
				if a := r.answer(seq); a.Refused != tc.refused {
					t.Errorf("the answer is %+v", a)
				}
			}
			r.settled()
			if n := r.exec.Starts(); n != 0 {
				t.Errorf("%d commands ran", n)
			}
			if !strings.Contains(r.lines.String(), tc.logged) {
				t.Errorf("%q is not in the log:\n%s", tc.logged, r.lines)
			}
		})
	}
}

// A gateway that is paired agrees for itself alone, whatever it calls its life.
func TestAgreementsOfTwo(t *testing.T) {
	other, public := natstest.NewKey(t)
	r := newRigOf(t, func(c *fabric.NodeConfig) { c.GatewayKeys = append(c.GatewayKeys, public) })
	a := r.agree()
	theirs := newShare(t)
	h := r.agreeing(fabric.OpAttach, "none", theirs)
	r.send(sealBy(t, other, h, nil)...)
	r.answer(h.Seq)
	b, err := theirs.Agree(r.told.Share, fabric.Parties{
		Node: nodeID, Boot: r.boot, Key: public, Life: r.life, NodeShare: r.told.Share, GatewayShare: theirs.Public(),
	})
	if err != nil {
		t.Fatal(err)
	}
	// Numbers are each one's own.
	for i, x := range []*fabric.Agreement{a, b} {
		id := fmt.Sprint("job", i)
		r.send(sealAgreed(t, x, fabric.Header{Seq: 1000, Epoch: r.told.Epoch, Op: fabric.OpStart, ID: id}, startBody(t, id, "print")))
		if got := r.answer(1000); got.Info == nil || got.Info.ID != id {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

// Bulk requests that cannot be taken have the node say hello, which tells the
// gateway what it needs to ask anew.
func TestBulkOfAnotherEpoch(t *testing.T) {
	r := newRigOf(t, func(c *fabric.NodeConfig) { c.Heartbeat = time.Minute })
	a := r.agree()
	hellos, err := r.conn.SubscribeSync(fabric.AllHellos)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	epoch := r.told.Epoch
	r.told.Epoch++
	m, _ := r.under(a, fabric.OpRead, "job", encode(t, fabric.Grant{Reader: 1, Limit: 10}))
	r.send(m)
	said, err := hellos.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := fabric.ParseHelloBody(said.Data); err != nil || h.Epoch != epoch || !bytes.Equal(h.Share, r.told.Share) {
		t.Errorf("%+v, %v", h, err)
	}
}

// The clocks of the two need not be the same: a gateway that has not heard of an
// epoch is told, and those that have do not ask what time it is.
func TestClocks(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, skew := range []time.Duration{time.Hour, -time.Hour, 10 * year, -10 * year} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			r := newRigOf(t, func(c *fabric.NodeConfig) { c.Now = func() time.Time { return time.Now().Add(skew) } })
			h := r.header(fabric.OpStart, "job")
			r.send(r.seal(h, startBody(t, "job", "print"))...)
			told := r.answer(h.Seq)
			if told.Refused != fabric.RefusedTime || told.Epoch == 0 || told.Epoch != r.told.Epoch {
				t.Fatalf("%+v, and the epoch of the hello is %d", told, r.told.Epoch)
			}
			h = r.header(fabric.OpStart, "job")
			h.Epoch = told.Epoch
			r.send(r.seal(h, startBody(t, "job", "print"))...)
			if a := r.answer(h.Seq); a.Info == nil {
				t.Fatalf("%+v", a)
			}
			// One that is too large for a message, and one under an agreement.
			h = r.header(fabric.OpStart, "large")
			h.Epoch = told.Epoch
			body, err := fabric.EncodeStart("", corral.Command{ID: "large", Args: []string{"print", strings.Repeat("x", 100_000)}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.send(r.seal(h, body)...)
			if a := r.answer(h.Seq); a.Info == nil {
				t.Fatalf("%+v", a)
			}
			mine := newShare(t)
			h = r.agreeing(fabric.OpAttach, "job", mine)
			r.send(r.seal(h, nil)...)
			if a := r.answer(h.Seq); a.Info == nil {
				t.Fatalf("%+v", a)
			}
			m, seq := r.under(r.agreement(mine), fabric.OpWait, "job", nil)
			r.send(m)
			if a := r.answer(seq); a.Exit == nil || a.Exit.Code != 3 {
				t.Fatalf("%+v", a)
			}
		})
	}
}

// Shares and agreements that are none.
func TestShares(t *testing.T) {
	mine, theirs := newShare(t), newShare(t)
	for _, public := range [][]byte{nil, []byte("short"), make([]byte, 33), make([]byte, 32)} {
		if _, err := mine.Agree(public, fabric.Parties{}); !errors.Is(err, fabric.ErrMalformed) {
			t.Errorf("%x: %v", public, err)
		}
	}
	p := fabric.Parties{Node: "n", Boot: "b", Key: "k", Life: "l", NodeShare: theirs.Public(), GatewayShare: mine.Public()}
	seal := func(s *fabric.Share, public []byte, p fabric.Parties) string {
		a, err := s.Agree(public, p)
		if err != nil {
			t.Fatal(err)
		}
		a.Boot, a.Life = "b", "l"
		return string(sealAgreed(t, a, fabric.Header{Seq: 1, Op: fabric.OpAttach, ID: "job"}, nil))
	}
	want := seal(mine, theirs.Public(), p)
	if got := seal(theirs, mine.Public(), p); got != want {
		t.Error("the two do not agree")
	}
	for name, change := range map[string]func(*fabric.Parties){
		"node": func(p *fabric.Parties) { p.Node = "x" }, "boot": func(p *fabric.Parties) { p.Boot = "x" },
		"key": func(p *fabric.Parties) { p.Key = "x" }, "life": func(p *fabric.Parties) { p.Life = "x" },
		"node's share":    func(p *fabric.Parties) { p.NodeShare = mine.Public() },
		"gateway's share": func(p *fabric.Parties) { p.GatewayShare = theirs.Public() },
	} {
		q := p
		change(&q)
		if seal(mine, theirs.Public(), q) == want {
			t.Errorf("another %s comes to the same", name)
		}
	}
	a, err := mine.Agree(theirs.Public(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []fabric.Header{{ID: strings.Repeat("x", 256)}, {Op: fabric.Op(strings.Repeat("x", 256))}} {
		if _, err := a.Seal(h, nil); !errors.Is(err, fabric.ErrMalformed) {
			t.Error(err)
		}
	}
	if _, err := a.Seal(fabric.Header{}, make([]byte, fabric.MaxData+1)); !errors.Is(err, fabric.ErrMalformed) {
		t.Error(err)
	}
}
