package fabric_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/natstest"
)

// A request that was recorded in an earlier life of the node means nothing in the next
// one, also if the gateway signs it for the new life by mistake.
func TestEarlierLife(t *testing.T) {
	earlier := newRig(t)
	public, err := earlier.key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	r := newRigOf(t, func(c *fabric.NodeConfig) { c.GatewayKeys = []string{public} })
	if r.boot == earlier.boot || r.epoch.Load() == earlier.epoch.Load() || r.epoch.Load() == 0 {
		t.Fatalf("the lives are %+v and %+v", earlier.told, r.told)
	}
	for _, tc := range []struct {
		name    string
		change  func(h *fabric.Header)
		refused fabric.Refusal
	}{
		{"as it was", func(*fabric.Header) {}, fabric.RefusedBoot},
		{"with the epoch of this life", func(h *fabric.Header) { h.Epoch = r.epoch.Load() }, fabric.RefusedBoot},
		{"with the name of this life", func(h *fabric.Header) { h.Boot = r.boot }, fabric.RefusedEpoch},
	} {
		h := earlier.header(fabric.OpStart, "job")
		h.Life = r.life // so that r hears the answer
		tc.change(&h)
		r.send(earlier.seal(h, startBody(t, "job", "print"))...)
		a := r.answer(h.Seq)
		if a.Refused != tc.refused || a.Boot != r.boot || a.Epoch == 0 || a.Epoch != r.epoch.Load() {
			t.Errorf("%s: %+v", tc.name, a)
		}
	}
	if n := r.exec.Starts(); n != 0 {
		t.Errorf("%d commands ran", n)
	}
	// The refusals tell the gateway what it needs.
	r.key = earlier.key
	h := r.header(fabric.OpStart, "job")
	r.send(r.seal(h, startBody(t, "job", "print"))...)
	if a := r.answer(h.Seq); a.Info == nil || r.exec.Starts() != 1 {
		t.Errorf("%+v, %d commands ran", a, r.exec.Starts())
	}
}

// A request that was withheld for too long is refused, whether it was taken before or not.
func TestOldRequest(t *testing.T) {
	var ahead atomic.Int64
	r := newRigOf(t, func(c *fabric.NodeConfig) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	taken, withheld := r.header(fabric.OpStart, "taken"), r.header(fabric.OpStart, "withheld")
	first, second := r.seal(taken, startBody(t, "taken", "print")), r.seal(withheld, startBody(t, "withheld", "print"))
	for range 2 {
		r.send(first...)
		if a := r.answer(taken.Seq); a.Info == nil {
			t.Fatalf("%+v", a)
		}
	}
	ahead.Store(int64(181 * time.Second)) // one second more than an epoch is known
	for seq, m := range map[uint64][][]byte{taken.Seq: first, withheld.Seq: second} {
		r.send(m...)
		a := r.answer(seq)
		if a.Refused != fabric.RefusedEpoch || a.Epoch == 0 || a.Epoch == withheld.Epoch {
			t.Errorf("%+v", a)
		}
		r.epoch.Store(a.Epoch)
	}
	if n := r.exec.Starts(); n != 1 {
		t.Errorf("%d commands ran", n)
	}
	if !strings.Contains(r.lines.String(), "reason=epoch") {
		t.Errorf("the log is\n%s", r.lines)
	}
	h := r.header(fabric.OpStart, "withheld")
	r.send(r.seal(h, startBody(t, "withheld", "print"))...)
	if a := r.answer(h.Seq); a.Info == nil || r.exec.Starts() != 2 {
		t.Errorf("in the present epoch: %+v", a)
	}
}

// A request whose last part was withheld for too long is refused, too.
func TestOldPart(t *testing.T) {
	var ahead atomic.Int64
	r := newRigOf(t, func(c *fabric.NodeConfig) {
		c.Heartbeat = time.Minute // no tidying in between
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	h := r.header(fabric.OpStart, "large")
	body, err := fabric.EncodeStart("", corral.Command{ID: "large", Args: []string{"print", strings.Repeat("x", 100_000)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := r.seal(h, body)
	r.send(m[:len(m)-1]...)
	r.settled()
	ahead.Store(int64(181 * time.Second))
	if err := r.conn.Publish(fabric.PartSubject(nodeID), m[len(m)-1]); err != nil {
		t.Fatal(err)
	}
	look := r.header(fabric.OpAttach, "large")
	r.send(r.seal(look, nil)...)
	told := r.answer(look.Seq)
	look = r.header(fabric.OpAttach, "large") // it waits for a start that is under way
	look.Epoch = told.Epoch
	r.send(r.seal(look, nil)...)
	if a := r.answer(look.Seq); a.Info != nil || r.exec.Starts() != 0 {
		t.Errorf("%+v, and %d commands ran", a, r.exec.Starts())
	}
}

// A request with one bit changed, cut or prolonged is not acted upon.
func TestChangedBits(t *testing.T) {
	r := newRig(t)
	h := r.header(fabric.OpStart, "job")
	m := r.seal(h, startBody(t, "job", "print"))[0]
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
	a := r.answer(h.Seq)
	for a.Refused != "" { // of those before
		a = r.answer(h.Seq)
	}
	if a.Info == nil || r.exec.Starts() != 1 {
		t.Errorf("%+v", a)
	}
	if !strings.Contains(r.lines.String(), "refused a request") {
		t.Errorf("the log is\n%s", r.lines)
	}
}

// Two gateways that call their lives the same have numbers and answers of their own.
func TestTwoGateways(t *testing.T) {
	other, public := natstest.NewKey(t)
	r := newRigOf(t, func(c *fabric.NodeConfig) { c.GatewayKeys = append(c.GatewayKeys, public) })
	h := r.header(fabric.OpStart, "")
	for i, seal := range []func(id string) [][]byte{
		func(id string) [][]byte { return r.seal(h, startBody(t, id, "print")) },
		func(id string) [][]byte { return sealBy(t, other, h, startBody(t, id, "print")) },
	} {
		h.ID = fmt.Sprint("job", i)
		r.send(seal(h.ID)...)
		if a := r.answer(h.Seq); a.Info == nil || a.Info.ID != h.ID {
			t.Errorf("%d: %+v", i, a)
		}
	}
}

// A bulk request has no answer. One of an unknown epoch makes the node say hello, which
// tells the gateway the epoch.
func TestBulkOfUnknownEpoch(t *testing.T) {
	r := newRigOf(t, func(c *fabric.NodeConfig) { c.Heartbeat = time.Minute })
	hellos, err := r.conn.SubscribeSync(fabric.AllHellos)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	h := r.header(fabric.OpRead, "job")
	h.Epoch++
	r.send(r.seal(h, encode(t, fabric.Grant{Reader: 1, Limit: 10}))...)
	said, err := hellos.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fabric.ParseHelloBody(said.Data); err != nil || got.Epoch != h.Epoch-1 || got.Boot != r.boot {
		t.Errorf("%+v, %v", got, err)
	}
}

// The clocks of gateway and node may differ by any amount. A gateway that does not know
// the epoch is told it.
func TestClocks(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, skew := range []time.Duration{time.Hour, -time.Hour, 10 * year, -10 * year} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			r := newRigOf(t, func(c *fabric.NodeConfig) { c.Now = func() time.Time { return time.Now().Add(skew) } })
			h := r.header(fabric.OpStart, "job")
			h.Epoch = 0
			r.send(r.seal(h, startBody(t, "job", "print"))...)
			told := r.answer(h.Seq)
			if told.Refused != fabric.RefusedEpoch || told.Epoch == 0 || told.Epoch != r.told.Epoch {
				t.Fatalf("%+v, and the epoch of the hello is %d", told, r.told.Epoch)
			}
			h = r.header(fabric.OpStart, "job")
			h.Epoch = told.Epoch
			r.send(r.seal(h, startBody(t, "job", "print"))...)
			if a := r.answer(h.Seq); a.Info == nil {
				t.Fatalf("%+v", a)
			}
			// One that is too large for a message.
			h = r.header(fabric.OpStart, "large")
			body, err := fabric.EncodeStart("", corral.Command{ID: "large", Args: []string{"print", strings.Repeat("x", 100_000)}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.send(r.seal(h, body)...)
			if a := r.answer(h.Seq); a.Info == nil {
				t.Fatalf("%+v", a)
			}
			h = r.header(fabric.OpWait, "job")
			r.send(r.seal(h, nil)...)
			if a := r.answer(h.Seq); a.Exit == nil || a.Exit.Code != 3 {
				t.Fatalf("%+v", a)
			}
		})
	}
}
