package fabric

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/turn"
)

// Bounds of the memory of writes.
const (
	maxWrites   = 1024 // at a time
	maxOver     = 8192 // ended ones whose outcome is known
	inputWindow = 256 << 10
	maxQueue    = 64 // pieces of a write, however small
)

// write is one Process.Write of a gateway. Its bytes are handed over in order, without
// those of other writes in between.
type write struct {
	n      *node
	key    string
	life   string
	number uint64
	ref    Ref
	total  int64
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}

	mu    sync.Mutex
	queue [][]byte
	next  int64 // arrived
	done  int64 // handed over
	limit int64 // granted
	over  bool
	err   error
	seen  time.Time
}

func keyOfWrite(life string, n uint64) string { return life + "." + strconv.FormatUint(n, 10) }

// writeKey returns the key of the write that a request is about, or "".
func writeKey(e *Envelope) string {
	if e.Op != OpOpen && e.Op != OpWrite {
		return ""
	}
	in, err := ParseInput(e.Body)
	if err != nil {
		return ""
	}
	return keyOfWrite(e.Life, in.Write)
}

func (n *node) input(e *Envelope, in Input) {
	key := keyOfWrite(e.Life, in.Write)
	n.mu.Lock()
	w := n.writes[key]
	if w == nil && e.Op == OpOpen && in.Off == 0 && !in.Abort && n.open < maxWrites && !n.closed {
		w = &write{n: n, key: key, life: e.Life, number: in.Write, ref: e.Ref, total: in.Total, wake: make(chan struct{}, 1), seen: time.Now()}
		w.ctx, w.cancel = context.WithCancel(n.ctx)
		if len(in.Data) > 0 {
			w.queue, w.next = [][]byte{in.Data}, int64(len(in.Data))
		}
		w.limit = w.next
		n.writes[key] = w
		n.open++
		n.spawnLocked(w.run)
		n.mu.Unlock()
		return
	}
	busy, closed := n.open >= maxWrites, n.closed
	n.mu.Unlock()
	switch {
	case closed: // the gateway will ask the node's next life
	case w != nil && w.ref.ID == e.ID:
		if why := w.addPiece(in); why != "" {
			n.warn("refused input", "reason", why, "process", e.ID, "gateway", e.Key)
		}
	case w != nil:
		n.warn("refused input to the write of another process", "process", e.ID, "gateway", e.Key)
	default:
		// A write that was begun must not begin again.
		err := corral.Errorf(corral.ErrLost, "look at the process before sending it again", "node %s does not know how far this input has come", n.id)
		if e.Op == OpOpen && busy {
			n.warn("refused input", "reason", RefusedBusy, "process", e.ID, "gateway", e.Key, "writes", maxWrites)
			err = corral.Errorf(corral.ErrUnavailable, "write less at a time", "node %s has %d writes to do", n.id, maxWrites)
		}
		n.publish(ToGateway(e.Life, n.id, KindInput, in.Write), InputAck{Flags: FlagEnd | FlagError, Data: encodeError(err)}.Append(nil))
	}
}

// addPiece adds a piece, or returns why it does not belong to this write.
func (w *write) addPiece(in Input) (refused string) {
	w.mu.Lock()
	w.seen = time.Now()
	end := in.Off + int64(len(in.Data))
	missing := false
	switch {
	case in.Total != w.total:
		refused = "it is of another length"
	case w.over:
	case in.Abort:
		w.cancel()
	case in.Off > w.next:
		missing = true
	case end > w.limit:
		refused = "more than was granted"
	case end > w.next && len(w.queue) >= maxQueue:
		missing = true // the gateway sends it again when there is room
	case end > w.next:
		w.queue = append(w.queue, in.Data[w.next-in.Off:])
		w.next = end
		turn.Offer(w.wake, struct{}{})
	}
	report := missing || w.over || len(in.Data) == 0 || end <= in.Off
	w.mu.Unlock()
	if report {
		w.reportGap(missing)
	}
	return refused
}

func (w *write) idle(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return 0
	}
	return now.Sub(w.seen)
}

// report tells the gateway the progress of the write.
func (w *write) report() { w.reportGap(false) }

func (w *write) reportGap(missing bool) {
	w.mu.Lock()
	a := InputAck{Done: w.done, Next: w.next, Limit: w.limit}
	if missing {
		a.Flags |= FlagGap
	}
	if w.over {
		a.Flags |= FlagEnd
		if w.err != nil {
			a.Flags |= FlagError
			a.Data = encodeError(w.err)
		}
	}
	w.mu.Unlock()
	w.n.publish(ToGateway(w.life, w.n.id, KindInput, w.number), a.Append(nil))
}

func (w *write) run() {
	err := w.copy()
	if err != nil && w.ctx.Err() != nil {
		err = corral.Errorf(corral.ErrUnavailable, "", "the write was ended where it was: %w", err)
	}
	w.cancel()
	w.mu.Lock()
	w.over, w.err, w.queue = true, err, nil
	w.mu.Unlock()
	w.report()

	n := w.n
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open--
	n.over = append(n.over, w.key)
	for len(n.over) > maxOver {
		delete(n.writes, n.over[0])
		n.over = n.over[1:]
	}
}

// copy hands all data to the process.
func (w *write) copy() error {
	n := w.n
	release, err := n.turns.Take(w.ctx, w.ref.ID)
	if err != nil {
		return err
	}
	defer release()
	p, err := n.attach(w.ctx, w.ref)
	if err != nil {
		return err
	}
	if w.total == 0 { // for its error
		_, err := p.Write(w.ctx, nil)
		return err
	}
	for told := int64(-inputWindow); ; {
		w.mu.Lock()
		var data []byte
		if len(w.queue) > 0 {
			data, w.queue = w.queue[0], w.queue[1:]
		}
		done := w.done
		tell := done < w.total && w.limit < w.total && done-told >= inputWindow/8
		if tell {
			told = done
			w.limit = min(w.total, done+inputWindow)
		}
		w.mu.Unlock()
		switch {
		case done == w.total:
			return nil
		case tell:
			w.report()
		}
		if data == nil {
			select {
			case <-w.wake:
				continue
			case <-w.ctx.Done():
				return w.ctx.Err()
			}
		}
		k, err := p.Write(w.ctx, data)
		w.mu.Lock()
		w.done += int64(k)
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
}
