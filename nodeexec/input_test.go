package nodeexec

import (
	"context"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/test/natstest"
)

// What a life of the node's program says at its end about a write counts, also if the
// next life is there before it is read.
func TestLastWordOfLife(t *testing.T) {
	key, _ := natstest.NewKey(t)
	signer, err := fabric.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	data := []byte("data")
	end := fabric.InputAck{Done: 4, Next: 4, Limit: 4, Flags: fabric.FlagEnd}
	for range 20 {
		f := &Fabric{signer: signer, paired: func() []Paired { return nil }, ctx: context.Background(), waiting: map[uint64]waiter{}, patience: DefaultPatience}
		p := &peer{f: f, id: "n1", changed: make(chan struct{})}
		p.told.Boot = "first"
		in := &input{
			p: &process{link: link{f: f, peer: p}}, n: 1, total: 4, data: data, acks: make(chan fabric.InputAck, 64),
			open: &sealed{boot: "first", copies: 1}, boot: "first", begun: true, sent: 2,
		}
		in.p.info.Info = corral.Info{ID: "job"}
		in.acks <- fabric.InputAck{Done: 2, Next: 2, Limit: 4} // run sends the rest, which needs p.mu
		p.mu.Lock()
		type result struct {
			n     int
			again bool
			err   error
		}
		done := make(chan result)
		go func() {
			n, again, err := in.run(t.Context())
			done <- result{n, again, err}
		}()
		in.acks <- end
		p.mu.Unlock()
		p.rebooted("second", 1)
		if got := <-done; got != (result{n: 4}) {
			t.Fatalf("%+v", got)
		}
	}
}
