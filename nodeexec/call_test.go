package nodeexec

import (
	"context"
	"testing"

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
