package gateway

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// A pacer is shared by all readers of logs that are still being written. A reader
// takes what is there first and pays for it before it reads again. So one that reads
// little never waits; one that reads a lot sleeps, finds more when it wakes, and
// reads in large pieces. Sleeping readers cost the command nothing: it does not even
// wake them.
type pacer struct {
	limit *rate.Limiter // nil: no limit
}

const (
	// paceBurst is what may be read at once after a pause.
	paceBurst = 4 << 20
	// paceLeast is what a read costs at least, in bytes: reading a line and
	// sending it is not much cheaper than that much output.
	paceLeast = 16 << 10
)

func newPacer(bytesPerSecond int64) *pacer {
	if bytesPerSecond < 0 {
		return &pacer{}
	}
	return &pacer{rate.NewLimiter(rate.Limit(bytesPerSecond), max(paceBurst, api.MaxFrame))}
}

// A reader reads one log for one client.
type reader struct {
	log   corral.Log
	pace  *pacer
	idle  idler // nil: it does not matter how long a read takes
	ended bool  // nothing is written to the log any more: no need for pacing
	edge  int64 // where the kept part of the log began when it was looked at last
	owed  int
}

// An idler is told when there has been no output for a while.
type idler interface {
	// patience is how long it waits for output.
	patience() time.Duration
	// idle is called after that. Its error ends the Read.
	idle() error
}

// Read is corral.Log.Read at the reader's pace.
func (r *reader) Read(ctx context.Context, off int64, buf []byte) (corral.Chunk, error) {
	if r.idle == nil {
		return r.read(ctx, off, buf)
	}
	for {
		wait, cancel := context.WithTimeout(ctx, r.idle.patience())
		c, err := r.read(wait, off, buf)
		expired := wait.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !expired {
			return c, err
		}
		if err := r.idle.idle(); err != nil {
			return corral.Chunk{Offset: off}, err
		}
	}
}

func (r *reader) read(ctx context.Context, off int64, buf []byte) (corral.Chunk, error) {
	if err := r.pay(ctx, &off); err != nil {
		return corral.Chunk{}, err
	}
	c, err := r.log.Read(ctx, off, buf)
	if err == nil {
		r.owed = max(len(c.Data), paceLeast)
	}
	return c, err
}

// pay waits for as long as the last read costs. It moves off forward if what
// is there would be overwritten while it is read.
func (r *reader) pay(ctx context.Context, off *int64) error {
	limit := r.pace.limit
	if limit == nil || r.ended || r.owed == 0 || limit.AllowN(time.Now(), r.owed) {
		r.owed = 0
		return nil
	}
	stat, err := r.log.Stat(ctx)
	if err != nil {
		return err
	}
	if r.ended = stat.Ended; r.ended {
		return nil
	}
	paid := limit.ReserveN(time.Now(), r.owed)
	select {
	case <-time.After(paid.Delay()):
	case <-ctx.Done():
		paid.Cancel() // or it would pay twice
		return context.Cause(ctx)
	}
	r.owed = 0
	return r.skip(ctx, off)
}

// skip is for a reader whom the command overtakes. At the very edge of what is
// kept, everything it reads is overwritten under its hands; so it goes on in
// the middle, from where it can read a while.
func (r *reader) skip(ctx context.Context, off *int64) error {
	stat, err := r.log.Stat(ctx)
	if err != nil {
		return err
	}
	r.ended = stat.Ended
	moved := stat.GapEnd - r.edge
	known := r.edge > 0
	r.edge = stat.GapEnd
	if known && !r.ended && moved > 0 && *off >= stat.GapStart && *off < stat.GapEnd+moved {
		*off = max(*off, stat.GapEnd+(stat.Size-stat.GapEnd)/2)
	}
	return nil
}
