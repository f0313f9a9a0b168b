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

// reply is a node's answer, or the server's statement that the node is not subscribed.
type reply struct {
	answer fabric.Answer
	nobody bool
}

// waiter is a call that waits for a node's answer.
type waiter struct {
	peer *peer
	ch   chan<- reply // nil: none
}

// expect makes the number of a request to a node, and a channel for its replies.
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

// unanswered is the error of a request without an answer.
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

// request is an operation to ask of a node.
type request struct {
	op   fabric.Op
	id   string
	body []byte
	// once: a second execution would have another effect.
	once bool
	// patience bounds the silence of the node. 0: no bound.
	patience time.Duration
}

// sealed is a signed request. It is sent as the same bytes as often as needed, and the
// node acts upon it once.
type sealed struct {
	boot     string
	epoch    uint64
	seq      uint64
	messages [][]byte
	until    time.Time
	replies  <-chan reply
	copies   int // that may have arrived
	// Copies that another life of the node's program refused. If that is the next one,
	// they arrived nowhere else; but it may be of another machine with the node's key.
	refusals  int
	refusedBy string
}

// refusedAs notes a refusal by another life.
func (s *sealed) refusedAs(boot string) {
	if s.refusedBy != boot {
		s.refusals, s.refusedBy = 0, boot
	}
	s.refusals++
}

// followedBy notes that boot is the life after the one that s was for.
func (s *sealed) followedBy(boot string) {
	if s.refusedBy == boot {
		s.copies = max(s.copies-s.refusals, 0)
	}
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

// send sends a copy. A failure is no error: it is sent again. A node that is not paired
// any more is sent nothing.
func (f *Fabric) send(p *peer, s *sealed) {
	if !f.isPaired(p.id) {
		return
	}
	for i, m := range s.messages {
		msg := nats.Msg{Subject: fabric.RequestSubject(p.id), Data: m}
		switch {
		case i > 0:
			msg.Subject = fabric.PartSubject(p.id)
		case s.replies != nil: // so the server says at once if the node is not subscribed
			msg.Reply = fabric.ToGateway(f.life, p.id, fabric.KindAnswer, s.seq)
		}
		if f.conn.Conn().PublishMsg(&msg) != nil {
			return
		}
		if i == 0 {
			s.copies++
		}
	}
}

// The time after which a request is sent again without any other reason.
const (
	firstResend = 500 * time.Millisecond
	lastResend  = 5 * time.Second
)

// maxRenewed bounds how often a request is signed anew because the node does not know
// its epoch.
const maxRenewed = 3

// call asks a node until it answers. The error is an unanswered, or says why the node
// cannot be asked.
func (f *Fabric) call(ctx context.Context, p *peer, r request) (fabric.Answer, error) {
	if err := ctx.Err(); err != nil {
		return fabric.Answer{}, &unanswered{cause: err}
	}
	c := call{f: f, p: p, r: r, begun: time.Now()}
	defer c.drop()
	resend := time.NewTimer(firstResend)
	defer resend.Stop()
	for pause := firstResend; ; pause = min(2*pause, lastResend) {
		boot, changed := p.state()
		if a, next, err := c.prepare(boot); next == stepOver {
			return a, err
		}
		if c.sent != nil {
			f.send(p, c.sent)
		}
		resend.Reset(pause)
		if a, next, err := c.wait(ctx, changed, resend.C); next == stepOver {
			return a, err
		}
	}
}

// A call is a request until it is answered. If sent is nil, no copy is on its way: no
// life of the node is known, or a new message is needed. Otherwise copies of one
// message may be at the node.
type call struct {
	f *Fabric
	p *peer
	r request

	begun   time.Time
	sent    *sealed
	maybe   bool // a message before sent may have been acted upon
	renewed int  // how often the node did not know the epoch
}

// step is the next step of a call.
type step int

const (
	stepWait step = iota // wait on
	stepSend             // send, after preparing a new message if needed
	stepOver             // it has its answer or its error
)

func (c *call) drop() {
	if c.sent != nil {
		c.f.forget(c.sent.seq)
		c.sent = nil
	}
}

// unanswered ends a call that will get no answer, unless one has arrived.
func (c *call) unanswered(cause error) (fabric.Answer, step, error) {
	if c.sent != nil {
		if a, answered := c.sent.drain(); answered {
			return a, stepOver, nil
		}
	}
	return fabric.Answer{}, stepOver, &unanswered{cause, c.maybe || c.sent != nil && c.sent.copies > 0}
}

// prepare makes a message for this life of the node, if needed. A message to the last
// life, or an expired one, has been acted upon by now, or never will be.
func (c *call) prepare(boot string) (fabric.Answer, step, error) {
	if s := c.sent; s != nil && (s.boot != boot || time.Now().After(s.until)) {
		if a, answered := s.drain(); answered {
			return a, stepOver, nil
		}
		s.followedBy(boot)
		c.maybe = c.maybe || s.copies > 0
		c.drop()
		if c.maybe && c.r.once {
			cause := errAway
			if s.boot != boot {
				cause = errRestarted
			}
			return c.unanswered(cause)
		}
	}
	if c.sent == nil && boot != "" {
		s, err := c.f.seal(c.p, boot, c.r.op, c.r.id, c.r.body)
		if err != nil {
			return fabric.Answer{}, stepOver, err
		}
		c.sent = s
	}
	return fabric.Answer{}, stepSend, nil
}

// wait waits until the call is over or has to send again.
func (c *call) wait(ctx context.Context, changed <-chan struct{}, resend <-chan time.Time) (fabric.Answer, step, error) {
	var replies <-chan reply
	if c.sent != nil {
		replies = c.sent.replies
	}
	for {
		select {
		case got := <-replies:
			if a, next, err := c.evaluate(got); next != stepWait {
				return a, next, err
			}
		case <-changed:
			return fabric.Answer{}, stepSend, nil
		case <-resend:
			switch {
			case c.r.patience > 0 && c.p.silent(c.begun, c.r.patience):
				return c.unanswered(errAway)
			case !c.f.isPaired(c.p.id):
				return c.unanswered(fmt.Errorf("the node is not paired any more: %w", errAway))
			}
			return fabric.Answer{}, stepSend, nil
		case <-ctx.Done():
			return c.unanswered(ctx.Err())
		case <-c.f.ctx.Done():
			return c.unanswered(c.f.closedError())
		}
	}
}

// evaluate decides about the next step after a reply.
func (c *call) evaluate(got reply) (fabric.Answer, step, error) {
	s, refused := c.sent, got.answer.Refused
	switch {
	case got.nobody: // it is sent again when the node is back, or after a while
		s.copies = max(s.copies-1, 0)
		return fabric.Answer{}, stepWait, nil
	case refused == "":
		return got.answer, stepOver, nil
	case refused == fabric.RefusedBusy && c.r.patience == 0: // it is asked again after a while
		s.copies = max(s.copies-1, 0)
		s.until = time.Time{} // a new message is needed
		return fabric.Answer{}, stepWait, nil
	}
	if repeat, err := s.refused(got.answer, c.maybe, c.r.once); !repeat {
		return fabric.Answer{}, stepOver, err
	}
	switch refused {
	case fabric.RefusedReplay:
		c.maybe = true
		s.until = time.Time{} // a new message is needed
	case fabric.RefusedEpoch:
		s.until = time.Time{}
		switch c.renewed++; {
		case c.renewed == 1: // at once; but not each time, if the node keeps saying so
			return fabric.Answer{}, stepSend, nil
		case c.renewed > maxRenewed:
			return fabric.Answer{}, stepOver, refusal(got.answer)
		}
	}
	return fabric.Answer{}, stepWait, nil // a change of the node's state announces its new life
}

// drain reads the replies that have arrived. It finds an answer, and removes copies
// that were surely not acted upon.
func (s *sealed) drain() (a fabric.Answer, answered bool) {
	for {
		select {
		case got := <-s.replies:
			switch {
			case got.nobody:
				s.copies = max(s.copies-1, 0)
			case got.answer.Refused == fabric.RefusedBoot:
				s.refusedAs(got.answer.Boot)
			case got.answer.Refused == "":
				return got.answer, true
			}
		default:
			return fabric.Answer{}, false
		}
	}
}

// refused reports whether a refused request is worth repeating.
func (s *sealed) refused(a fabric.Answer, maybe, once bool) (repeat bool, err error) {
	if a.Refused == fabric.RefusedReplay {
		if once {
			return false, &unanswered{fmt.Errorf("the node has forgotten its answer: %w", errAway), true}
		}
		return true, nil
	}
	if a.Refused == fabric.RefusedBoot {
		s.refusedAs(a.Boot)
		return true, nil
	}
	s.copies = max(s.copies-1, 0)
	if a.Refused == fabric.RefusedEpoch && a.Epoch != 0 && a.Epoch != s.epoch {
		return true, nil
	}
	err = refusal(a)
	if (maybe || s.copies > 0) && once {
		err = &unanswered{err, true}
	}
	return false, err
}

// refusal is the error of a finally refused request.
func refusal(a fabric.Answer) error {
	if a.Error != nil {
		return fabric.DecodeError(a.Error)
	}
	return corral.Errorf(corral.ErrUnavailable, "", "the node refuses the request: %s", a.Refused)
}

// ask is call for operations that have the same effect twice.
func (n *link) ask(ctx context.Context, op fabric.Op, id string, body []byte, patience time.Duration) (fabric.Answer, error) {
	return n.answered(ctx, request{op: op, id: id, body: body, patience: patience})
}

// answered is call where it makes no difference whether an unanswered request was acted
// upon.
func (n *link) answered(ctx context.Context, r request) (fabric.Answer, error) {
	a, err := n.f.call(ctx, n.peer, r)
	if u, ok := errors.AsType[*unanswered](err); ok {
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
