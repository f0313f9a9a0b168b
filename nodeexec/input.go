package nodeexec

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// input is a Write on its way.
type input struct {
	p     *process
	n     uint64
	total int64
	acks  chan fabric.InputAck

	data  []byte
	open  *sealed // the first piece, which begins the write
	begun bool    // the node has it
	sent  int64
	limit int64
	done  int64
}

// abortLimit is how long Write waits, after its context has ended, to be told
// how much was handed over.
const abortLimit = 5 * time.Second

func (in *input) receive(a fabric.InputAck) { offer(in.acks, a) }

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

// write is one write as the node sees it. It is to be made again, for the
// rest, if the node's program ended in between and said how far it had come.
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

// mayHaveBegun reports whether the node may have it.
func (in *input) mayHaveBegun() bool {
	return in.begun || in.open != nil && in.open.copies > 0
}

func (in *input) run(ctx context.Context) (n int, again bool, err error) {
	p, f, start := in.p, in.p.f, time.Now()
	var (
		over     = ctx.Done()
		aborting bool
		hurried  bool
		aborted  <-chan time.Time
		boot     string
		pause    = firstResend
	)
	resend := time.NewTimer(pause)
	defer resend.Stop()
	for {
		now, changed := p.peer.state()
		if now != "" && now != boot {
			if in.open != nil {
				in.open.drain()
			}
			if in.mayHaveBegun() {
				return int(in.done), false, in.lost(errRestarted)
			}
			boot = now
			if err := in.seal(boot); err != nil {
				return 0, false, err
			}
		}
		in.ask(aborting)
		if aborting {
			pause = firstResend
		}
		resend.Reset(pause)
		pause = min(2*pause, lastResend)
	waiting:
		for {
			var replies <-chan reply
			if in.open != nil {
				replies = in.open.replies
			}
			select {
			case a := <-in.acks:
				pause = firstResend
				in.begun = true
				in.done = max(in.done, a.Done)
				in.limit = max(in.limit, a.Limit)
				if a.Flags&fabric.FlagEnd != 0 {
					return in.ended(ctx, a)
				}
				if a.Flags&fabric.FlagGap != 0 {
					in.sent = a.Next
				}
				if !aborting {
					in.push()
				}
			case got := <-replies:
				switch {
				case got.nobody:
					in.open.copies = max(in.open.copies-1, 0)
				default:
					repeat, err := in.open.refused(got.answer, in.begun, true)
					if u := (*unanswered)(nil); errors.As(err, &u) {
						err = in.lost(u.cause)
					}
					if !repeat {
						return int(in.done), false, err
					}
					if got.answer.Refused == fabric.RefusedEpoch && !in.mayHaveBegun() {
						boot = "" // sealed again
						if !hurried {
							hurried = true
							break waiting
						}
					}
				}
			case <-changed:
				break waiting
			case <-resend.C:
				if !in.begun && in.open != nil && time.Now().After(in.open.until) {
					if in.mayHaveBegun() {
						return 0, false, in.lost(errAway)
					}
					boot = "" // sealed again
				}
				if p.peer.quiet(start) > f.patience || !f.isPaired(p.peer.id) {
					if in.mayHaveBegun() {
						return int(in.done), false, in.lost(errAway)
					}
					return 0, false, p.unavailable(errAway)
				}
				break waiting
			case <-over:
				if !in.mayHaveBegun() {
					return 0, false, ctx.Err()
				}
				over, aborting = nil, true
				limit := time.NewTimer(abortLimit)
				defer limit.Stop()
				aborted = limit.C
				break waiting
			case <-aborted:
				return int(in.done), false, in.lost(ctx.Err())
			case <-f.ctx.Done():
				return int(in.done), false, in.lost(f.closedError())
			}
		}
	}
}

// seal makes the first piece, for one life of the node's program.
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

// ask sends the first piece, or asks how far the node has come.
func (in *input) ask(aborting bool) {
	switch {
	case aborting:
		in.bulk(fabric.Input{Abort: true})
	case in.begun:
		in.bulk(fabric.Input{Off: in.sent})
	case in.open != nil:
		in.p.f.send(in.p.peer, in.open)
	}
}

// push sends what may be sent.
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
	if err == nil { // else it is as if it had not arrived
		in.p.f.send(in.p.peer, s)
	}
}

// ended is what comes of the node's last word.
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
	// The node's program ends; the next goes on.
	limit := time.NewTimer(in.p.f.patience)
	defer limit.Stop()
	select {
	case <-changed:
		return n, true, nil
	case <-limit.C:
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
