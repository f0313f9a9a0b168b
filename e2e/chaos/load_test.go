//go:build e2e

package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/test/exectest/pattern"
	"github.com/corral-exec/corral/internal/test/moments"
	"github.com/corral-exec/corral/session"
)

// A load is sessions that come and go, a fixed number of them at any time.
type load struct {
	t      *testing.T
	s      *site
	agents []*client.Client
	ctx    context.Context // of every call

	place   func(slot int, cmd *corral.Command) // where a session is; nil: on the host, or in the sandbox
	patient bool                                // what cannot be reached is asked again
	gate    sync.RWMutex                        // held for writing while nothing can begin

	serial           atomic.Int64
	begun, live      atomic.Int64
	sessions, bytes  atomic.Int64
	exits, announced atomic.Int64
	unknown          atomic.Int64

	mu     sync.Mutex
	expect map[string]bool  // ends that are to be announced, and whether they were
	last   map[string]int64 // the number of each agent's last event
}

// A job is one session with what must come of it.
type job struct {
	cmd    corral.Command
	notify bool
	code   int           // exit code; -1: by a signal
	reason corral.Reason // of the exit
	seed   uint64        // of the pattern it prints; 0: see text
	size   int64
	gap    bool   // the log is smaller than the output
	text   string // what it prints, if it prints no pattern
	do     func(context.Context, *job, corral.Process) error
	retry  func(error) bool // see again; nil: never
	told   []told
}

// again is whether to ask again after an error, which says that nothing was done.
func (j *job) again(err error) bool { return j.retry != nil && j.retry(err) }

// kinds are what sessions do. n tells them apart, and is part of what they
// print.
var kinds = []func(r *rand.Rand, n int64) *job{
	func(_ *rand.Rand, n int64) *job { // short
		return &job{cmd: shell("echo %d; exit %d", n, n%100), code: int(n % 100), text: fmt.Sprintln(n)}
	},
	func(r *rand.Rand, n int64) *job { // chatty
		size := 200_000 + r.Int64N(1_000_000)
		return &job{cmd: shell("./testprog pattern %d %d 10000 10ms; exit 3", size, n), code: 3, seed: uint64(n), size: size}
	},
	func(r *rand.Rand, n int64) *job { // more than is kept
		size := 2_000_000 + r.Int64N(20_000_000)
		j := &job{cmd: shell("./testprog pattern %d %d 100000 2ms; exit 4", size, n), code: 4, seed: uint64(n), size: size, gap: true}
		j.cmd.Log = corral.LogLimit{Head: 50_000, Tail: 200_000}
		return j
	},
	func(r *rand.Rand, _ int64) *job { // silent
		return &job{cmd: shell("sleep %v; exit 5", moments.Between(r, 100*time.Millisecond, 4*time.Second).Seconds()), code: 5}
	},
	func(r *rand.Rand, n int64) *job { // on a terminal
		size := 50_000 + r.Int64N(200_000)
		j := &job{cmd: shell("./testprog text %d %d 1000 10ms; exit 6", size, n), code: 6, seed: uint64(n), size: size}
		j.cmd.TTY = &corral.Size{}
		return j
	},
	func(*rand.Rand, int64) *job { // with input
		j := &job{cmd: shell("cat; exit 7"), code: 7, do: talk}
		j.cmd.Stdin = true
		return j
	},
	func(*rand.Rand, int64) *job { // that runs out of time
		j := &job{cmd: shell("echo before; sleep 1000 & sleep 1000"), code: -1, reason: corral.ReasonTimeout, text: "before\n"}
		j.cmd.Timeout = 1500 * time.Millisecond
		return j
	},
	func(r *rand.Rand, n int64) *job { // that nobody waits for
		return &job{cmd: shell("sleep %v; echo %d; exit 8", moments.Between(r, 0, 3*time.Second).Seconds(), n), code: 8, text: fmt.Sprintln(n), notify: true}
	},
	func(*rand.Rand, int64) *job { // that is killed
		return &job{cmd: shell("echo here; exec sleep 1000"), code: -1, text: "here\n", do: kill}
	},
}

func shell(format string, args ...any) corral.Command {
	return corral.Command{Shell: fmt.Sprintf(format, args...)}
}

// keep keeps n sessions alive until done is closed, and then waits for them.
func (l *load) keep(n int, seed uint64, done <-chan struct{}) {
	var all sync.WaitGroup
	for slot := range n {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(slot))) //nolint:gosec // moments, not secrets
			for k := slot; ; k++ {
				select {
				case <-done:
					return
				default:
				}
				number := l.serial.Add(1)
				j := kinds[k%len(kinds)](r, number)
				j.cmd.ID = fmt.Sprintf("s%d", number)
				j.cmd.Shell = "echo ran >>runs/" + j.cmd.ID + "; " + j.cmd.Shell
				if l.place != nil {
					l.place(slot, &j.cmd)
				} else {
					j.cmd.Elevated = slot%2 == 0 // on the host
				}
				l.one(j, l.agents[slot/2%len(l.agents)])
				if l.t.Failed() {
					return
				}
			}
		})
	}
	all.Wait()
}

// one sees one session through.
func (l *load) one(j *job, c *client.Client) {
	ctx, cancel := context.WithTimeout(l.ctx, 4*time.Minute)
	defer cancel()
	fail := func(what string, err error) {
		l.t.Errorf("%s (%s): %s: %v", j.cmd.ID, j.cmd.Shell, what, err)
	}
	if j.notify {
		l.mu.Lock()
		l.expect[j.cmd.ID] = false
		l.mu.Unlock()
	}
	j.retry = func(err error) bool {
		if !l.patient || !errors.Is(err, corral.ErrUnavailable) || ctx.Err() != nil {
			return false
		}
		time.Sleep(100 * time.Millisecond)
		return true
	}
	l.gate.RLock()
	p, err := c.Begin(ctx, j.cmd, j.notify)
	l.gate.RUnlock()
	if err != nil {
		fail("Begin", err)
		return
	}
	l.begun.Add(1)
	l.live.Add(1)
	defer l.live.Add(-1)
	if j.do != nil {
		if err := j.do(ctx, j, p); err != nil {
			fail("its work", err)
			return
		}
	}
	if err := l.read(ctx, j, p); err != nil {
		fail("its output", err)
	}
	if j.notify {
		if err := l.untilAnnounced(ctx, j.cmd.ID); err != nil {
			fail("its event", err)
		}
	}
	exit, err := p.Wait(ctx)
	if errors.Is(err, corral.ErrLost) {
		l.unknown.Add(1)
	}
	want := corral.Exit{Code: j.code, Reason: cmp.Or(j.reason, corral.ReasonExited)}
	if err != nil || exit.Code != want.Code || exit.Reason != want.Reason || (exit.Signal != 0) != (j.code < 0) {
		fail("its end", fmt.Errorf("%+v, %w; want code %d, %s", exit, err, want.Code, want.Reason))
	}
	l.exits.Add(1)
	if n := l.s.ran(j.cmd.ID); n != 1 {
		fail("its run", fmt.Errorf("it was run %d times", n))
	}
	for err = p.Remove(ctx); j.again(err); {
		err = p.Remove(ctx)
	}
	if err != nil {
		fail("Remove", err)
	}
	l.sessions.Add(1)
}

// read reads all output from its start, and compares every byte.
func (l *load) read(ctx context.Context, j *job, p corral.Process) error {
	var text strings.Builder
	var missing int64
	off, buf := int64(0), make([]byte, 32<<10)
	for {
		c, err := p.Log().Read(ctx, off, buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if j.again(err) {
			continue
		}
		if err != nil {
			return err
		}
		missing += c.Offset - off
		if c.Offset < off {
			return fmt.Errorf("offset %d was asked for, and %d came: bytes are repeated", off, c.Offset)
		}
		if j.seed != 0 && j.cmd.TTY == nil && !pattern.Equal(c.Data, j.seed, c.Offset) {
			return fmt.Errorf("the %d bytes at offset %d are not what was printed", len(c.Data), c.Offset)
		}
		if j.seed == 0 || j.cmd.TTY != nil {
			text.Write(c.Data)
		}
		l.bytes.Add(int64(len(c.Data)))
		off = c.Next()
	}
	st, err := p.Log().Stat(ctx)
	for j.again(err) {
		st, err = p.Log().Stat(ctx)
	}
	if err != nil {
		return err
	}
	switch {
	case st.Size != off:
		return fmt.Errorf("the log has %d bytes, and ended at %d", st.Size, off)
	case missing > 0 && !j.gap:
		return fmt.Errorf("%d bytes are missing", missing)
	case j.seed != 0 && off != j.size:
		return fmt.Errorf("%d bytes, and %d were printed", off, j.size)
	case j.seed != 0 && j.cmd.TTY != nil:
		want := make([]byte, j.size)
		pattern.FillText(want, j.seed, 0)
		if text.String() != string(want) {
			return errors.New("the terminal shows something else than was printed")
		}
	case j.cmd.Stdin:
		return j.heard(text.String())
	case j.seed == 0 && text.String() != j.text:
		return fmt.Errorf("%q was printed, want %q", text.String(), j.text)
	}
	return nil
}

// talk writes lines to a session. If the gateway dies during a line, the client says that it
// does not know what became of it. The line is there once, or not at all.
func talk(ctx context.Context, j *job, p corral.Process) error {
	for n := range 10 {
		line := fmt.Sprintf("%s line %d\n", j.cmd.ID, n)
		_, err := p.Write(ctx, []byte(line))
		if err != nil && !errors.Is(err, corral.ErrLost) && !j.again(err) {
			return err
		}
		j.told = append(j.told, told{line, err == nil})
		time.Sleep(100 * time.Millisecond)
	}
	err := p.CloseStdin(ctx)
	for j.again(err) {
		err = p.CloseStdin(ctx)
	}
	return err
}

// told is a line that was written, perhaps.
type told struct {
	line    string
	certain bool
}

// heard compares what a session says with what it was told.
func (j *job) heard(text string) error {
	rest := text
	for _, w := range j.told {
		after, ok := strings.CutPrefix(rest, w.line)
		if !ok && w.certain {
			return fmt.Errorf("%q was taken, and is not there: %q", w.line, text)
		}
		rest = after
	}
	if rest != "" {
		return fmt.Errorf("%q is more than it was told", rest)
	}
	return nil
}

// kill kills a session once it has begun to speak.
func kill(ctx context.Context, j *job, p corral.Process) error {
	_, err := p.Log().Read(ctx, 0, make([]byte, 1))
	for j.again(err) {
		_, err = p.Log().Read(ctx, 0, make([]byte, 1))
	}
	if err != nil {
		return err
	}
	for {
		err := p.Signal(ctx, corral.SIGKILL)
		switch {
		case errors.Is(err, corral.ErrEnded):
			return nil
		case j.again(err):
		case !errors.Is(err, corral.ErrLost):
			return err
		}
	}
}

// listen takes every event, as a platform would, and checks that none comes
// twice.
func (l *load) listen(ctx context.Context, c *client.Client) error {
	for e, err := range c.Events(ctx, client.EventOptions{}) {
		if err != nil {
			return err
		}
		l.event(e)
	}
	return nil
}

func (l *load) event(e session.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	announced, expected := l.expect[e.SessionID]
	switch {
	case e.Seq <= l.last[e.Agent]:
		l.t.Errorf("event %d after event %d", e.Seq, l.last[e.Agent])
	case announced:
		l.t.Errorf("the end of %s is announced twice", e.SessionID)
	case !expected:
		l.t.Errorf("the end of %s is announced, and nobody asked for it", e.SessionID)
	}
	l.last[e.Agent] = e.Seq
	l.expect[e.SessionID] = true
	l.announced.Add(1)
}

func (l *load) untilAnnounced(ctx context.Context, id string) error {
	for {
		l.mu.Lock()
		announced := l.expect[id]
		l.mu.Unlock()
		if announced {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("its end is not announced")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
