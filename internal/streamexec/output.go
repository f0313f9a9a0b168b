package streamexec

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/outlog"
)

// output moves a command's output into its log.
type output struct {
	log     *outlog.Log
	warn    func(error)
	ended   chan struct{} // closed at the end of the stream
	err     error         // why the output is incomplete; set before ended is closed
	retryIn time.Duration // pause after a log could not be written
	ending  chan struct{} // closed when drain begins

	mu      sync.Mutex
	size    int64
	waiting bool // for output, with all earlier output in the log
	stuck   bool // the log cannot be written, and that was reported
	dropped bool // it could not be written until the end of this life
	sealed  bool // the log has ended: further output is dropped
	held    bool // it was sealed before the end of the stream
}

func newOutput(log *outlog.Log, warn func(error)) *output {
	return &output{log: log, warn: warn, ended: make(chan struct{}), ending: make(chan struct{}), retryIn: 200 * time.Millisecond}
}

// copy reads to the end of the stream, even after seal: a descendant that still writes
// must not block.
func (o *output) copy(ctx context.Context, x Stream) {
	defer close(o.ended)
	buf := make([]byte, 32<<10)
	paced, _ := x.(Paced)
	for {
		o.wait(true)
		n, stream, err := x.Read(buf)
		o.wait(false)
		if n > 0 {
			o.add(ctx, stream, buf[:n])
			if paced != nil {
				o.rest(ctx, paced.Took(int64(n)))
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			o.err = err
			return
		}
	}
}

// rest pauses reading, for the pacing. It does not pause while drain waits for the last
// output, which is bounded.
func (o *output) rest(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	ending := o.ending
	if o.isSealed() {
		ending = nil
	}
	select {
	case <-time.After(d):
	case <-ending:
	case <-ctx.Done():
	}
}

func (o *output) isSealed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sealed
}

func (o *output) wait(begins bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = begins
}

func (o *output) progress() (size int64, waiting bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size, o.waiting
}

// add waits while the log cannot be written; then the command waits, too.
func (o *output) add(ctx context.Context, stream corral.Stream, b []byte) {
	if stream != corral.Stderr {
		stream = corral.Stdout
	}
	for !o.tryAdd(stream, b) {
		select {
		case <-time.After(o.retryIn):
		case <-ctx.Done():
			o.mu.Lock()
			o.dropped = true
			o.mu.Unlock()
			return
		}
	}
}

func (o *output) tryAdd(stream corral.Stream, b []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sealed || o.dropped {
		return true
	}
	if err := o.log.Append(stream, o.size, b); err != nil {
		if !o.stuck {
			o.warn(err)
		}
		o.stuck = true
		return false
	}
	o.size += int64(len(b))
	o.stuck = false
	return true
}

// When the exit is known, the last output may still be on its way. No mark shows its
// end while a descendant holds the output. So reading goes on until no output came for
// drainQuiet. If a descendant goes on writing, reading ends after drainTrickle of
// waiting, or after more output than can have been on its way. Losing output would be
// worse than being late.
//
// Time is counted in ticks: on a busy machine the goroutine that counts is delayed as
// much as the one that reads.
const (
	drainTick    = 10 * time.Millisecond
	drainQuiet   = 2 * corral.DrainLimit / drainTick
	drainTrickle = 10 * corral.DrainLimit / drainTick
	drainBytes   = 4 << 20
)

// drain waits for the end of the output after the command's end. It is false if not all of
// it could be written.
func (o *output) drain() bool {
	close(o.ending)
	first, _ := o.progress()
	before := first
	quiet, waited := 0, 0
	for quiet < int(drainQuiet) && waited < int(drainTrickle) && before-first < drainBytes {
		select {
		case <-o.ended:
			return !o.isDropped()
		case <-time.After(drainTick):
		}
		size, waiting := o.progress()
		if waiting {
			quiet, waited = quiet+1, waited+1
		}
		if !waiting || size != before {
			quiet = 0
		}
		before = size
	}
	return !o.isDropped()
}

func (o *output) isDropped() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// seal ends the log.
func (o *output) seal() {
	held := !o.over()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sealed, o.held = true, held
	o.log.End()
}

// outlived reports whether a descendant held the output at the end.
func (o *output) outlived() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held
}

// over reports whether the stream has ended: no process holds it any more.
func (o *output) over() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}
