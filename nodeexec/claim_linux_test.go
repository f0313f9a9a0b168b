package nodeexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/located"
	"github.com/corral-exec/corral/internal/origin"
)

// claims answers every question as if the node had the process, and counts the questions
// about processes.
func (h *hostile) claims(info string) *atomic.Int32 {
	var asked atomic.Int32
	go func() {
		for {
			m, err := h.asked.NextMsg(20 * time.Second)
			if err != nil {
				return
			}
			if strings.HasSuffix(m.Subject, ".who") {
				h.say(fabric.HelloSubject(evilID), `{"min":1,"max":1,"boot":"b"}`)
				continue
			}
			if e, err := fabric.ParseEnvelope(m.Data); err == nil && e.Op == fabric.OpAttach {
				asked.Add(1)
				h.say(fabric.ToGateway(e.Life, evilID, fabric.KindAnswer, e.Seq), fmt.Sprintf(`{"boot":"b","info":{"id":%q,"pid":1%s}}`, e.ID, info))
			}
		}
	}()
	return &asked
}

// A node that claims another one's process does not get it, also in the next life of the
// gateway.
func TestNodeClaimsAProcessOfAnother(t *testing.T) {
	h := newHostile(t)
	p := start(t, h.node(), corral.Command{ID: "job", Shell: "sleep"})
	h.end()
	h.open()
	h.node()
	asked := h.claims("")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	for _, node := range []string{origin.NodeOf(p), p.Info().Node} {
		q, err := h.fabric.Attach(located.With(ctx, located.Place{Node: node}), "job")
		if err != nil || origin.NodeOf(q) != origin.NodeOf(p) {
			t.Errorf("on %s: %v", node, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the other node was asked %d times", n)
	}
	if _, err := h.fabric.Attach(located.With(ctx, located.Place{Node: "gone"}), "job"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("on a node that is not paired: %v", err)
	}

	h.end()
	h.open() // it does not remember where the process is
	h.node()
	for range 2 { // nor does it after that
		if _, err := h.fabric.Attach(ctx, "job"); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "2 nodes claim to have process job") {
			t.Errorf("two nodes claim it: %v", err)
		}
	}
}

// A time of a node that no clock shows is refused, since in UTC it may have no JSON.
func TestNodeTellsATimeWithoutJSON(t *testing.T) {
	h := newHostile(t)
	h.claims(`,"startedAt":"9999-12-31T23:59:59-10:00"`)
	x, _, err := h.fabric.Select(t.Context(), evilID)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if p, err := x.Attach(ctx, "job"); err == nil {
		_, err := json.Marshal(p.Info())
		t.Errorf("it was believed: %v", err)
	}
	h.logged("a process of the year 10000")
}
