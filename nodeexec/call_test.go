package nodeexec

import (
	"context"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// An answer that has arrived counts, also if the caller's context ends meanwhile.
func TestAnswerBeforeCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		f := &Fabric{ctx: context.Background()}
		replies := make(chan reply, 8)
		replies <- reply{answer: fabric.Answer{Boot: "b"}}
		c := call{f: f, p: &peer{f: f}, sent: &sealed{boot: "b", copies: 1, replies: replies}}
		if a, next, err := c.wait(ctx, nil, nil); next != stepOver || err != nil || a.Boot != "b" {
			t.Fatalf("%+v, %v, %v", a, next, err)
		}
	}
}

// Wait goes on while the node has too many requests; what has a bound gives up.
func TestBusy(t *testing.T) {
	busy := reply{answer: fabric.Answer{Refused: fabric.RefusedBusy}}
	for patience, want := range map[time.Duration]step{0: stepWait, time.Second: stepOver} {
		c := call{r: request{op: fabric.OpWait, patience: patience}, sent: &sealed{copies: 1, until: time.Now().Add(time.Hour)}}
		if _, next, err := c.evaluate(busy); next != want || (err == nil) != (want == stepWait) {
			t.Errorf("with the patience %v: %v, %v", patience, next, err)
		}
		if patience == 0 && !c.sent.until.IsZero() {
			t.Error("the same message is sent again, which the node acts upon once")
		}
	}
}
