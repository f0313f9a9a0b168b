package guard

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy/approval"
)

// memory is a Store in memory. After each change it calls put.
type memory struct {
	mu       sync.Mutex
	seq      int64
	versions map[string]int64
	changed  func(approval.Record)
	put      func(approval.Record)
}

func (m *memory) Follow(changed func(approval.Record)) error {
	m.changed, m.versions = changed, map[string]int64{}
	return nil
}

func (m *memory) Put(_ context.Context, r approval.Record) (approval.Record, error) {
	m.mu.Lock()
	if r.Version != m.versions[r.ID]+1 {
		m.mu.Unlock()
		return approval.Record{}, approval.ErrStale
	}
	m.seq++
	r.Seq, m.versions[r.ID] = m.seq, r.Version
	m.changed(r)
	m.mu.Unlock()
	m.put(r)
	return r, nil
}

func (m *memory) Tidy([]approval.Record, func() []approval.Record) error { return nil }
func (m *memory) Close() error                                           { return nil }

// A call ends with its context, also while the approval of another command is being used.
func TestUseEndsWithItsContext(t *testing.T) {
	r := newRig(t, onHost)
	under, release := make(chan struct{}), make(chan struct{})
	r.store = &memory{put: func(rec approval.Record) {
		if rec.State == approval.Consumed && rec.Command == "tool a" {
			close(under)
			<-release
		}
	}}
	r.again()
	slow, other := corral.Command{ID: "one", Shell: "tool a"}, corral.Command{ID: "two", Shell: "tool b"}
	slow.Approval = r.answer(r.pending(slow), approval.AllowOnce).ID
	other.Approval = r.answer(r.pending(other), approval.AllowOnce).ID
	done := make(chan error, 1)
	go func() {
		_, err := r.check(slow)
		done <- err
	}()
	<-under
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.guard.For("main")(ctx, other, gateway)
		ended <- err
	}()
	time.Sleep(50 * time.Millisecond)
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the call goes on after its context has ended")
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A command with an environment runs also if it is allowed before the call that asked has
// returned.
func TestAllowedAtOnce(t *testing.T) {
	r := newRig(t, onHost)
	var h *record
	r.store = &memory{put: func(rec approval.Record) {
		if rec.State == approval.Pending {
			r.answer(rec, approval.AllowOnce)
			h.next()
		}
	}}
	r.again()
	h = r.serve()
	r.pending(corral.Command{ID: "one", Shell: "tool", Env: map[string]string{"A": "1"}})
	if ran, _, denials := h.got(); len(ran) != 1 || ran[0].Env["A"] != "1" || len(denials) != 0 {
		t.Errorf("%+v, %q", ran, denials)
	}
}
