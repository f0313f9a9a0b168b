package nodeexec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// reply is an answer, or that nobody listens.
type reply struct {
	answer fabric.Answer
	nobody bool
}

// offer does not block: what does not fit is asked for again.
func offer[T any](ch chan<- T, v T) {
	select {
	case ch <- v:
	default:
	}
}

// waiter is who waits for what a node answers.
type waiter struct {
	peer *peer
	ch   chan<- reply // nil: nobody
}

// expect makes a number for a request to a node and a channel for what it
// answers.
func (f *Fabric) expect(p *peer) (uint64, <-chan reply) {
	n, ch := f.calls.Add(1), make(chan reply, 8)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting[n] = waiter{p, ch}
	return n, ch
}

func (f *Fabric) forget(n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiting, n)
}

// unanswered is the error of a request that was not answered.
type unanswered struct {
	cause error
	maybe bool // it may have been acted upon
}

func (e *unanswered) Error() string { return e.cause.Error() }
func (e *unanswered) Unwrap() error { return e.cause }

var (
	errAway      = errors.New("nothing is heard of the node")
	errRestarted = errors.New("the node's program was restarted")
)

// request is something to ask a node.
type request struct {
	op   fabric.Op
	id   string
	body []byte
	// once: acting upon it twice is not the same as once.
	once bool
	// patience is for how long nothing may be heard of the node. 0: forever.
	patience time.Duration
}

// sealed is a request as it is sent: the same bytes as often as need be, which
// the node acts upon once.
type sealed struct {
	boot     string
	epoch    uint64
	seq      uint64
	messages [][]byte
	until    time.Time
	replies  <-chan reply
	copies   int // that may have arrived
}

func (f *Fabric) seal(p *peer, boot string, op fabric.Op, id string, body []byte) (*sealed, error) {
	s := &sealed{boot: boot, epoch: p.epochOf(boot), until: time.Now().Add(fabric.Lifetime)}
	if op.Bulk() {
		s.seq = f.bulks.Add(1)
	} else {
		s.seq, s.replies = f.expect(p)
	}
	var err error
	s.messages, err = f.signer.Seal(fabric.Header{
		Version: fabric.Version, Node: p.id, Boot: boot, Epoch: s.epoch, Life: f.life, Seq: s.seq, Op: op, ID: id,
	}, body)
	if err != nil {
		f.forget(s.seq)
	}
	return s, err
}

// send sends a copy. That it cannot be sent now is no error: it is sent again.
func (f *Fabric) send(p *peer, s *sealed) {
	for i, m := range s.messages {
		msg := nats.Msg{Subject: fabric.RequestSubject(p.id), Data: m}
		switch {
		case i > 0:
			msg.Subject = fabric.PartSubject(p.id)
		case s.replies != nil: // so that the server says at once if nobody listens
			msg.Reply = fabric.ToGateway(f.life, p.id, fabric.KindAnswer, s.seq)
		}
		if f.conn.PublishMsg(&msg) != nil {
			return
		}
		if i == 0 {
			s.copies++
		}
	}
}

// The time after which a request is sent again, while nothing happens that
// would be a reason to.
const (
	firstResend = 500 * time.Millisecond
	lastResend  = 5 * time.Second
)

// maxRenewed is how often a request is made anew since the node does not know its
// epoch.
const maxRenewed = 3

// call asks a node until it answers. The error is an unanswered, or why it
// cannot be asked.
func (f *Fabric) call(ctx context.Context, p *peer, r request) (fabric.Answer, error) {
	if err := ctx.Err(); err != nil {
		return fabric.Answer{}, &unanswered{cause: err}
	}
	begun, maybe, renewed := time.Now(), false, 0
	var s *sealed
	defer func() {
		if s != nil {
			f.forget(s.seq)
		}
	}()
	resend := time.NewTimer(firstResend)
	defer resend.Stop()
	for pause := firstResend; ; pause = min(2*pause, lastResend) {
		boot, changed := p.state()
		if s != nil && (s.boot != boot || time.Now().After(s.until)) {
			answer, answered := s.drain()
			if answered {
				return answer, nil
			}
			maybe = maybe || s.copies > 0
			cause := errAway
			if s.boot != boot {
				cause = errRestarted
			}
			f.forget(s.seq)
			s = nil
			if maybe && r.once {
				return fabric.Answer{}, &unanswered{cause, true}
			}
		}
		if s == nil && boot != "" {
			var err error
			if s, err = f.seal(p, boot, r.op, r.id, r.body); err != nil {
				s = nil
				return fabric.Answer{}, err
			}
		}
		var replies <-chan reply
		if s != nil {
			f.send(p, s)
			replies = s.replies
		}
		resend.Reset(pause)
	waiting:
		for {
			select {
			case got := <-replies:
				switch {
				case got.nobody:
					s.copies = max(s.copies-1, 0)
					continue // it is sent again when the node is back, or by and by
				case got.answer.Refused == "":
					return got.answer, nil
				}
				again, err := s.refused(got.answer, maybe, r.once)
				if !again {
					return fabric.Answer{}, err
				}
				switch got.answer.Refused {
				case fabric.RefusedReplay:
					maybe = true
					s.until = time.Time{} // another is needed
				case fabric.RefusedEpoch:
					s.until = time.Time{}
					switch renewed++; {
					case renewed == 1:
						break waiting // at once, which does no good if it says so every time
					case renewed > maxRenewed:
						return fabric.Answer{}, refusal(got.answer)
					}
				}
				continue // changed tells of the new life
			case <-changed:
				break waiting
			case <-resend.C:
				if r.patience > 0 && p.silent(begun, r.patience) {
					return fabric.Answer{}, &unanswered{errAway, maybe || s != nil && s.copies > 0}
				}
				if !f.isPaired(p.id) {
					return fabric.Answer{}, &unanswered{fmt.Errorf("the node is not paired any more: %w", errAway), maybe || s != nil && s.copies > 0}
				}
				break waiting
			case <-ctx.Done():
				return fabric.Answer{}, &unanswered{ctx.Err(), maybe || s != nil && s.copies > 0}
			case <-f.ctx.Done():
				return fabric.Answer{}, &unanswered{f.closedError(), maybe || s != nil && s.copies > 0}
			}
		}
	}
}

// drain looks at the replies that have arrived, for an answer, and for what
// was surely not acted upon.
func (s *sealed) drain() (a fabric.Answer, answered bool) {
	for {
		select {
		case got := <-s.replies:
			switch {
			case got.nobody, got.answer.Refused == fabric.RefusedBoot:
				s.copies = max(s.copies-1, 0)
			case got.answer.Refused == "":
				return got.answer, true
			}
		default:
			return fabric.Answer{}, false
		}
	}
}

// refused says whether a request that was refused is worth repeating.
func (s *sealed) refused(a fabric.Answer, maybe, once bool) (again bool, err error) {
	if a.Refused == fabric.RefusedReplay {
		if once {
			return false, &unanswered{fmt.Errorf("the node has forgotten its answer: %w", errAway), true}
		}
		return true, nil
	}
	s.copies = max(s.copies-1, 0)
	switch {
	case a.Refused == fabric.RefusedBoot,
		a.Refused == fabric.RefusedEpoch && a.Epoch != 0 && a.Epoch != s.epoch:
		return true, nil
	}
	err = refusal(a)
	if (maybe || s.copies > 0) && once {
		err = &unanswered{err, true}
	}
	return false, err
}

// refusal is the error of a request that was refused for good.
func refusal(a fabric.Answer) error {
	if a.Error != nil {
		return fabric.DecodeError(a.Error)
	}
	return corral.Errorf(corral.ErrUnavailable, "", "the node refuses the request: %s", a.Refused)
}

// ask is call for what has the same effect twice.
func (n *link) ask(ctx context.Context, op fabric.Op, id string, body []byte, patience time.Duration) (fabric.Answer, error) {
	a, err := n.f.call(ctx, n.peer, request{op: op, id: id, body: body, patience: patience})
	if u := (*unanswered)(nil); errors.As(err, &u) {
		if ctx.Err() != nil {
			return a, ctx.Err()
		}
		return a, n.unavailable(u.cause)
	}
	if err == nil && a.Error != nil {
		err = fabric.DecodeError(a.Error)
	}
	return a, err
}

func (n *link) unavailable(cause error) error {
	return corral.Errorf(corral.ErrUnavailable, "look at the node; commands go on there meanwhile", "node %s cannot be reached: %w", n.name, cause)
}
