package nodeexec

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// input is a Write under way.
type input struct {
	p     *process
	n     uint64
	total int64
	acks  chan fabric.InputAck

	data  []byte
	open  *sealed // the first piece, which begins the write
	boot  string  // the life that open is for; empty: seal it again
	begun bool    // the node has it
	sent  int64
	limit int64
	done  int64

	hurried  bool // it was already sealed again at once, which is done only once
	aborting bool
}

// abortLimit is how long Write waits for the node's report after its context has ended.
const abortLimit = 5 * time.Second

// Write implements corral.Process.
func (p *process) Write(ctx context.Context, data []byte) (int, error) {
	if p.removed.Load() {
		return 0, p.gone()
	}
	total := 0
	for {
		n, again, err := p.write(ctx, data[total:])
		total += n
		if !again {
			return total, err
		}
	}
}

// write is one write from the node's view. again reports that the rest has to be
// written anew, because the node's program ended in between and reported its progress.
func (p *process) write(ctx context.Context, data []byte) (n int, again bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	in := &input{p: p, n: p.f.ids.Add(1), total: int64(len(data)), data: data, acks: make(chan fabric.InputAck, 64)}
	p.f.mu.Lock()
	p.f.inputs[in.n] = in
	p.f.mu.Unlock()
	defer func() {
		p.f.mu.Lock()
		delete(p.f.inputs, in.n)
		p.f.mu.Unlock()
		in.unseal()
	}()
	return in.run(ctx)
}

func (in *input) unseal() {
	if in.open != nil {
		in.p.f.forget(in.open.seq)
		in.open = nil
	}
}

// mayHaveBegun reports whether the node may have the first piece.
func (in *input) mayHaveBegun() bool {
	return in.begun || in.open != nil && in.open.copies > 0
}

// run sends the input to the node. It repeats the first piece until the node confirms
// it (begun). Then the node reports its progress, and run asks if a report is missing.
// When ctx ends, run asks the node to stop and to report how much it handed over
// (aborting), and waits for abortLimit.
func (in *input) run(ctx context.Context) (n int, again bool, err error) {
	start, canceled := time.Now(), ctx.Done()
	var aborted <-chan time.Time
	resend := time.NewTimer(firstResend)
	defer resend.Stop()
	for pause := firstResend; ; {
		boot, changed := in.p.peer.state()
		if err := in.prepare(boot); err != nil {
			return in.failed(ctx, err)
		}
		in.ask()
		if in.aborting {
			pause = firstResend
		}
		resend.Reset(pause)
		pause = min(2*pause, lastResend)
		for wait := true; wait; {
			select {
			case a := <-in.acks:
				pause = firstResend
				in.note(a)
				if a.Flags&fabric.FlagEnd != 0 {
					return in.ended(ctx, a)
				}
				if !in.aborting {
					in.push()
				}
			case got := <-in.replies():
				wait, err = in.refused(got)
			case <-changed:
				wait = false
			case <-resend.C:
				wait, err = false, in.overdue(start)
			case <-canceled:
				if !in.mayHaveBegun() {
					return 0, false, ctx.Err()
				}
				wait, canceled, in.aborting = false, nil, true
				aborted = time.After(abortLimit)
			case <-aborted:
				err = in.lost(ctx.Err())
			case <-in.p.f.ctx.Done():
				err = in.lost(in.p.f.closedError())
			}
			if err != nil {
				return in.failed(ctx, err)
			}
		}
	}
}

// failed ends a write with an error, unless a report that has arrived ends it.
func (in *input) failed(ctx context.Context, err error) (n int, again bool, _ error) {
	for {
		select {
		case a := <-in.acks:
			in.note(a)
			if a.Flags&fabric.FlagEnd != 0 {
				return in.ended(ctx, a)
			}
		default:
			return int(in.done), false, err
		}
	}
}

// prepare makes a first piece for this life of the node, if one is known. A write that
// the last life may have begun is lost.
func (in *input) prepare(boot string) error {
	if boot == "" || boot == in.boot {
		return nil
	}
	if in.open != nil {
		in.open.drain()
		in.open.followedBy(boot)
	}
	if in.mayHaveBegun() {
		return in.lost(errRestarted)
	}
	in.boot = boot
	return in.seal(boot)
}

// replies returns the replies to the first piece.
func (in *input) replies() <-chan reply {
	if in.open == nil {
		return nil
	}
	return in.open.replies
}

// note stores the node's progress.
func (in *input) note(a fabric.InputAck) {
	in.begun = true
	in.done = max(in.done, a.Done)
	in.limit = max(in.limit, a.Limit)
	if a.Flags&(fabric.FlagGap|fabric.FlagEnd) == fabric.FlagGap {
		in.sent = a.Next
	}
}

// refused reports whether to wait on after a reply to the first piece. The error says
// that it is finally refused.
func (in *input) refused(got reply) (wait bool, err error) {
	if got.nobody {
		in.open.copies = max(in.open.copies-1, 0)
		return true, nil
	}
	repeat, err := in.open.refused(got.answer, in.begun, true)
	if u, ok := errors.AsType[*unanswered](err); ok {
		err = in.lost(u.cause)
	}
	if !repeat {
		return false, err
	}
	if got.answer.Refused != fabric.RefusedEpoch || in.mayHaveBegun() {
		return true, nil
	}
	in.boot = "" // seal it again
	wait, in.hurried = in.hurried, true
	return wait, nil
}

// overdue handles a time of silence. The write goes on, unless the whole node is
// silent.
func (in *input) overdue(start time.Time) error {
	if !in.begun && in.open != nil && time.Now().After(in.open.until) {
		if in.mayHaveBegun() {
			return in.lost(errAway)
		}
		in.boot = "" // seal it again
	}
	f, peer := in.p.f, in.p.peer
	switch {
	case peer.quiet(start) <= f.patience && f.isPaired(peer.id):
		return nil
	case in.mayHaveBegun():
		return in.lost(errAway)
	}
	return in.p.unavailable(errAway)
}

// seal signs the first piece for one life of the node's program.
func (in *input) seal(boot string) (err error) {
	in.unseal()
	first := fabric.Input{Write: in.n, Total: in.total, Data: in.data[:min(len(in.data), fabric.MaxInput)]}
	if in.open, err = in.p.f.seal(in.p.peer, boot, fabric.OpOpen, in.p.ref(), first.Append(nil)); err != nil {
		in.open = nil
		return err
	}
	in.sent = int64(len(first.Data))
	return nil
}

// ask sends the first piece, or asks for the progress.
func (in *input) ask() {
	switch {
	case in.aborting:
		in.bulk(fabric.Input{Abort: true})
	case in.begun:
		in.bulk(fabric.Input{Off: in.sent})
	case in.open != nil:
		in.p.f.send(in.p.peer, in.open)
	}
}

// push sends the data that the node has granted.
func (in *input) push() {
	for end := min(in.limit, in.total); in.sent < end; {
		k := min(end-in.sent, fabric.MaxInput)
		in.bulk(fabric.Input{Off: in.sent, Data: in.data[in.sent : in.sent+k]})
		in.sent += k
	}
}

func (in *input) bulk(piece fabric.Input) {
	boot, _ := in.p.peer.state()
	piece.Write, piece.Total = in.n, in.total
	s, err := in.p.f.seal(in.p.peer, boot, fabric.OpWrite, in.p.ref(), piece.Append(nil))
	if err == nil { // else it counts as lost
		in.p.f.send(in.p.peer, s)
	}
}

// ended evaluates the node's last message about the write.
func (in *input) ended(ctx context.Context, a fabric.InputAck) (n int, again bool, err error) {
	n = int(a.Done)
	if a.Flags&fabric.FlagError == 0 {
		if a.Done < in.total {
			return n, false, in.lost(errors.New("the node does not say why it took no more"))
		}
		return n, false, nil
	}
	err = a.Err()
	if !errors.Is(err, corral.ErrUnavailable) {
		return n, false, err
	}
	if ctx.Err() != nil {
		return n, false, ctx.Err()
	}
	boot, changed := in.p.peer.state()
	if in.open == nil || boot != in.open.boot {
		return n, true, nil
	}
	// The node's program ends; its next life goes on.
	select {
	case <-changed:
		return n, true, nil
	case <-time.After(in.p.f.patience):
		return n, false, err
	case <-ctx.Done():
		return n, false, ctx.Err()
	case <-in.p.f.ctx.Done():
		return n, false, err
	}
}

func (in *input) lost(cause error) error {
	return corral.Errorf(corral.ErrLost, "look at the process before sending it again",
		"node %s was cut off while input was on its way to process %s, and it is not known how much of it arrived: %w", in.p.name, in.p.info.ID, cause)
}
