package wardenexec

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/outlog"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/pathenv"
)

// process is a corral.Process. How its output and input move is its carrier's
// business: descriptors or messages.
type process struct {
	e  *Executor
	id string

	asked    bool          // an earlier life asked a warden to start it, and recorded no end
	ready    chan struct{} // closed when it is known whether it was started
	startErr error

	// Set before ready is closed; log under mu.
	tag    tag
	log    *outlog.Log
	client *client // of the answer to Start or Attach

	done     chan struct{} // closed when exit or err is set
	recorded chan struct{} // closed when that has been written down, or could not be

	mu       sync.Mutex
	carrier  carrier      // nil for a process that had ended when it was found
	exitSeen *corral.Exit // the warden has said how it ended
	told     carrier      // that was told so
	exit     corral.Exit
	err      error // why it is not known how it ended
	removed  bool
	unnoted  bool // its end could not be recorded yet
	unknown  bool // the warden does not know how it ended
	how      string

	concluded bool

	pipesNamed atomic.Bool // its pipes have names, see outlog.NewPipe
}

// carrier moves the output and input of one process.
type carrier interface {
	// exited says that the process has ended: output ends soon, and then
	// the carrier calls process.finish.
	exited()
	// event takes Output and InputAck.
	event(m *wire.Message)
	// reattach goes on over a new connection.
	reattach(c *client) error
	write(ctx context.Context, p []byte) (int, error)
	closeStdin(ctx context.Context) error
	// stop ends everything of the carrier without finish.
	stop()
}

const (
	// retryDelay is how long a log that cannot be written is left alone; the
	// process blocks meanwhile, and loses nothing.
	retryDelay = 200 * time.Millisecond
	// endOfFile is the character that a terminal turns into end-of-file.
	endOfFile = 0x04
)

func newProcess(e *Executor, id string) *process {
	return &process{e: e, id: id, ready: make(chan struct{}), done: make(chan struct{}), recorded: make(chan struct{})}
}

func (p *process) carry() carrier {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.carrier
}

// setCarrier is called before the warden can say anything of the process.
func (p *process) setCarrier(c carrier) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.carrier = c
}

func (p *process) setLog(l *outlog.Log) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = l
}

// settledYet tells whether it is known whether it was started.
func (p *process) settledYet() bool {
	select {
	case <-p.ready:
		return true
	default:
		return false
	}
}

func (p *process) settled(err error) {
	p.startErr = err
	close(p.ready)
}

// start starts the command, unless the warden runs one with that ID already.
func (p *process) start(ctx context.Context, cmd corral.Command) error {
	plan, err := p.e.opts.Prepare(ctx, cmd)
	if err != nil {
		return err
	}
	c, err := p.e.connection(ctx, true)
	if errors.Is(err, ErrGone) {
		return corral.Errorf(corral.ErrUnavailable, "", "cannot start %s: %w", p.id, err)
	}
	if err != nil {
		return err
	}
	p.tag.Info.Info = p.e.opts.Info
	p.tag.Info.ID, p.tag.Info.Dir, p.tag.Info.Notice, p.tag.Info.Warnings, p.tag.Info.Origin = p.id, plan.Dir, plan.Notice, plan.Warnings, originOf(ctx, cmd)
	p.tag.Limit = cmd.Log
	if err := p.confine(cmd.Domain, c); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		var a answer
		var tag []byte
		known := c.items[p.id] != nil
		if known {
			err = p.adopt(ctx, c)
			known = !errors.Is(err, corral.ErrNotFound) // it has ended and been forgotten since Hello
		}
		if !known && p.asked && !p.e.neverStarted(p.id, c) {
			p.startedLate(answer{})
			return corral.Errorf(corral.ErrLost, "attach to it by its id", "process %s may have been started before, by a warden that has ended", p.id)
		}
		if !known {
			if a, tag, err = p.startOn(ctx, c, cmd, plan); err == nil {
				return p.started(ctx, c, a, tag)
			}
		}
		refused := a.m != nil
		switch {
		case err == nil:
			return nil
		case known && !errors.Is(err, errSent):
			return p.outOfReach(err)
		case refused || attempt == 1 && !errors.Is(err, errSent):
			p.letGo()
			p.removePipes()
			if nerr := p.e.records.notStarted(p.id); !errors.Is(err, errUnwritten) { // else that would be said twice
				err = errors.Join(err, nerr)
			}
			return err
		}
		err = corral.Errorf(corral.ErrLost, "attach to it by its id to see whether it runs", "process %s may have been started: %w", p.id, err)
		if ctx.Err() != nil {
			select {
			case <-c.done:
				p.startedLate(answer{})
			default: // that is done when the answer comes
			}
			return err
		}
		again := (*client)(nil)
		if attempt < maxAttempts {
			again = p.e.sameWarden(ctx, c, p.id)
		}
		if again == nil {
			p.startedLate(answer{})
			return err
		}
		p.letGo()
		c = again
	}
}

// maxAttempts bounds over how many connections a start is repeated when each of them
// breaks.
const maxAttempts = 10

// startOn starts the command over a connection, with a tag. If that is refused,
// with an answer, nothing runs under its ID; after any other error something may,
// if it was sent before.
func (p *process) startOn(ctx context.Context, c *client, cmd corral.Command, plan pathenv.Plan) (a answer, tag []byte, err error) {
	p.setLog(outlog.New(p.e.records.root, p.id, cmd.Log))
	if err := p.e.records.start(p.id, c.warden, p.tag); err != nil {
		return answer{}, nil, err
	}
	p.tag.Nonce = corral.NewID()
	m := p.startMessage(cmd, plan)
	fds, err := p.newCarrier(c, m.Flags)
	if err != nil {
		return answer{}, nil, err
	}
	defer fds.close()
	a, err = c.call(ctx, m, p.startedLate, fds.all()...)
	return a, m.Tag, err
}

// startedLate takes the answer to a start that is not waited for any more, or none:
// if the command runs it is found by Attach.
func (p *process) startedLate(a answer) {
	p.e.forget(p)
	p.letGo()
	closeFDs(a.fds)
}

// outOfReach is the error of a start whose command the warden runs, and in which
// this program cannot take part. The warden goes on with it, and Attach finds it.
func (p *process) outOfReach(err error) error {
	p.startedLate(answer{})
	return corral.Errorf(corral.ErrLost, "attach to it by its id", "process %s was started, but cannot be reached: %w", p.id, err)
}

// letGo ends this end of a start that came to nothing here.
func (p *process) letGo() {
	if c := p.carry(); c != nil {
		c.stop()
	}
	p.mu.Lock()
	log := p.log
	p.mu.Unlock()
	if log != nil {
		log.Abandon()
	}
}

func (p *process) startMessage(cmd corral.Command, plan pathenv.Plan) *wire.Message {
	m := &wire.Message{Type: wire.Start, ID: p.id, Args: plan.Args, Env: plan.Env.Vars, Dir: plan.Dir, Timeout: uint64(cmd.Timeout)}
	switch {
	case cmd.Grace == 0:
		m.Grace = uint64(corral.DefaultGrace)
	case cmd.Grace > 0:
		m.Grace = uint64(cmd.Grace)
	}
	if cmd.Stdin {
		m.Flags |= wire.FlagStdin
	}
	if cmd.MergeStderr {
		m.Flags |= wire.FlagMerge
	}
	if cmd.TTY != nil {
		size := *cmd.TTY
		size.Rows = cmp.Or(size.Rows, corral.DefaultSize.Rows)
		size.Cols = cmp.Or(size.Cols, corral.DefaultSize.Cols)
		m.Flags = wire.FlagTTY
		m.Rows, m.Cols = uint64(size.Rows), uint64(size.Cols)
	}
	if plan.Snapshot && cmd.TTY == nil {
		m.Flags |= wire.FlagLogin
	}
	if cmd.Domain.Limits() {
		m.Domain = cmd.Domain.Append(nil)
	}
	m.Tag = p.tag.encode()
	return m
}

func (t tag) encode() []byte {
	b, err := json.Marshal(t)
	if err == nil && len(b) > wire.MaxTag {
		t.Info.Warnings = []string{"Warnings were too long to keep."}
		b, err = json.Marshal(t)
	}
	if err == nil && len(b) > wire.MaxTag && t.Info.Origin != nil {
		o := *t.Info.Origin
		o.Command = ""
		t.Info.Origin = &o
		b, err = json.Marshal(t)
	}
	if err != nil { // strings, numbers and times
		panic(fmt.Sprintf("cannot encode a tag: %v", err))
	}
	return b
}

// started takes the warden's answer to Start.
func (p *process) started(ctx context.Context, c *client, a answer, sent []byte) error {
	if !bytes.Equal(a.m.Tag, sent) {
		// Another gateway's process has the ID.
		closeFDs(a.fds)
		p.carry().stop()
		p.setCarrier(nil)
		err := p.adopt(ctx, c)
		switch {
		case errors.Is(err, corral.ErrNotFound):
			return corral.Errorf(corral.ErrUnavailable, "start it again", "another process had the id %s and was removed meanwhile", p.id)
		case err != nil:
			return p.outOfReach(err)
		}
		return nil
	}
	p.client = c
	p.tag.Info.PID = int(a.m.PID)
	p.tag.Info.StartedAt = unixNano(a.m.StartedAt)
	p.enforced(a.m)
	p.e.tellLogin(a.m.Login)
	err := a.errNotPassed()
	if err == nil {
		err = p.carrierStarted(c, a)
	}
	if err != nil {
		return p.outOfReach(err)
	}
	return nil
}

// adopt attaches to a process that the warden runs, or has seen ending. The error
// is ErrNotFound if the warden does not know it, and ErrUnavailable otherwise.
func (p *process) adopt(ctx context.Context, c *client) error {
	err := p.adoptFrom(ctx, c)
	if err == nil || errors.Is(err, corral.ErrNotFound) || errors.Is(err, corral.ErrUnavailable) {
		return err
	}
	return corral.Errorf(corral.ErrUnavailable, "", "cannot attach to process %s: %w", p.id, err)
}

func (p *process) adoptFrom(ctx context.Context, c *client) (err error) {
	if c.items[p.id] == nil && !p.e.opts.Ephemeral {
		// It may have been started by another gateway since Hello: ask.
		p.e.log.Debug("asking the warden for a process it did not list", "id", p.id)
	}
	t := tag{Limit: p.e.records.limit(p.id)}
	if item := c.items[p.id]; item != nil {
		if err := p.readTag(item, &t); err != nil {
			return err
		}
	}
	log, err := outlog.Open(p.e.records.root, p.id, t.Limit)
	if err != nil {
		return err
	}
	p.setLog(log)
	defer func() {
		if err != nil {
			p.stopCarrier() // what it was sent may be on its way to the log
			p.setCarrier(nil)
			log.Abandon()
		}
	}()
	stat, err := log.Stat(ctx)
	if err != nil {
		return err
	}
	if c.oneWay || !c.conn.PassesFiles() {
		// Output follows the answer at once, if it comes in messages.
		p.setCarrier(newMessages(p, c, 0))
	}
	a, err := c.call(ctx, &wire.Message{Type: wire.Attach, ID: p.id, Offset: uint64(stat.Size)}, nil)
	if err != nil {
		return err
	}
	if err := a.errNotPassed(); err != nil {
		return corral.Errorf(err, "", "cannot attach to process %s: %w", p.id, err)
	}
	if err := p.readTag(a.m, &t); err != nil {
		closeFDs(a.fds)
		return err
	}
	p.client = c
	p.tag = t
	p.tag.Info.ID = p.id
	p.tag.Info.PID = int(a.m.PID)
	p.tag.Info.StartedAt = unixNano(a.m.StartedAt)
	p.enforced(a.m)
	return p.carrierAdopted(c, a)
}

// reconnect goes on over a new connection. After an error it is to be tried again.
func (p *process) reconnect(c *client) error {
	if !p.settledYet() {
		return nil // it is being started, over whichever connection
	}
	// One that was started over c is told of its end there. An Attach would have it told
	// twice, and the second could be taken for that of the next command with this ID.
	if p.startErr != nil || p.client == c || !p.running() {
		return nil
	}
	err := p.carry().reattach(c)
	if errors.Is(err, corral.ErrNotFound) {
		p.e.log.Error("the warden does not know a process any more", "id", p.id, "error", err)
		p.lost(err)
		return nil
	}
	return err
}

func (p *process) event(m *wire.Message) {
	p.mu.Lock()
	carrier := p.carrier
	first := m.Type == wire.Exited && p.exitSeen == nil
	if first {
		exit := exitOf(m) // no more of it than there can be
		p.exitSeen = &exit
		p.unknown = m.Reason == wire.ReasonUnknown
		p.how = printable(m.Text[:min(len(m.Text), maxHow)])
		p.told = carrier
	}
	p.mu.Unlock()
	switch {
	case carrier == nil:
	case first:
		carrier.exited()
	case m.Type != wire.Exited:
		carrier.event(m)
	}
}

// replayExit delivers an Exited that came before there was a carrier, or to
// another.
func (p *process) replayExit(a answer) {
	p.mu.Lock()
	seen, carrier := p.exitSeen, p.carrier
	again := seen != nil && p.told != carrier
	if again {
		p.told = carrier
	}
	p.mu.Unlock()
	switch {
	case again:
		carrier.exited()
	case seen != nil:
	case a.m.Flags&wire.FlagEnded != 0:
		p.event(&wire.Message{Type: wire.Exited, ID: p.id, ExitCode: a.m.ExitCode, Signal: a.m.Signal, Reason: a.m.Reason, Text: a.m.Text,
			StartedAt: a.m.StartedAt, EndedAt: a.m.EndedAt, Args: a.m.Args, Refused: a.m.Refused})
	}
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// finish is called by the carrier, once, when the process has ended, its last
// byte is in the log, and carrierStarted or carrierAdopted was called: the end
// may overtake the answer to Start or Attach, from which the record's tag comes. The
// goroutine that reads the connection may call it: it waits for nothing.
func (p *process) finish() {
	select {
	case <-p.ready:
		p.record()
	default:
		// The end overtook the answer to Start or Attach, from which the
		// record's tag comes, or this is who takes that answer.
		p.e.wg.Go(func() {
			<-p.ready
			p.record()
		})
	}
}

// record settles and writes down how the process ended.
func (p *process) record() {
	if p.startErr != nil {
		return
	}
	p.mu.Lock()
	exit, err := *p.exitSeen, error(nil)
	if p.unknown {
		exit, err = corral.Exit{}, errLost(p.id, p.how)
	}
	p.mu.Unlock()
	if !p.conclude(exit, err) {
		return
	}
	if !p.note(exit) {
		p.e.noteLater(p, exit)
	}
	close(p.recorded)
}

// note writes down how the process ended, and has the warden forget it. Until
// then the warden keeps it, for a later life if need be.
func (p *process) note(exit corral.Exit) bool {
	if err := p.e.records.end(p.id, record{tag: p.tag, Exit: exit, Lost: p.unknown, How: p.how, Pipes: p.pipesNamed.Load()}); err != nil {
		p.e.log.Error("an exit status could not be recorded", "id", p.id, "error", err)
		return false
	}
	p.removePipes() // not before: until it is on record, the next life opens them
	// Before it is forgotten: a start under its ID asks the warden to forget it, first.
	p.e.acks.add(p.id, p.e.current)
	if !p.e.opts.Ephemeral {
		p.e.forget(p)
	}
	return true
}

// maxHow bounds what is kept of why it is not known how a process ended, in bytes.
const maxHow = 200

func unixNano(n uint64) time.Time { return time.Unix(0, int64(n)).UTC() }

// lost records that it will never be known how the process ended. cause is why it is
// gone.
func (p *process) lost(cause error) {
	end := new(Ended)
	errors.As(cause, &end)
	if !p.stopWith(errLost(p.id, end.How)) {
		return
	}
	defer close(p.recorded)
	if rerr := p.e.records.end(p.id, record{tag: p.tag, Lost: true, How: end.How, Pipes: p.pipesNamed.Load()}); rerr != nil {
		p.e.log.Error("a loss could not be recorded", "id", p.id, "error", rerr)
	}
	p.removePipes()
	p.e.forget(p)
}

// errLost is the error of waiting for a process when it will not be known how it
// ended; how says why, if that is known.
func errLost(id, how string) error {
	const gone = "the place where it ran is gone"
	switch {
	case how == "":
		how = gone
	case !strings.HasPrefix(how, wire.WardenKilled):
		how = gone + ": " + how
	}
	return corral.Errorf(corral.ErrLost, "see its log for what it did; starting it again may do it twice",
		"it is not known how process %s ended: %s", id, how)
}

// abandon lets go of a process that goes on without this executor.
func (p *process) abandon() {
	if p.stopWith(errClosed) {
		close(p.recorded)
	}
}

// stopWith ends this end of a process; false if it had ended.
func (p *process) stopWith(err error) bool {
	defer p.stopCarrier() // one that came meanwhile
	p.stopCarrier()
	return p.conclude(corral.Exit{}, err)
}

func (p *process) stopCarrier() {
	if c := p.carry(); c != nil {
		c.stop()
	}
}

// conclude settles what Wait returns, once.
func (p *process) conclude(exit corral.Exit, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.concluded {
		return false
	}
	p.concluded = true
	p.exit, p.err = exit, err
	switch {
	case p.log == nil:
	case errors.Is(err, errClosed):
		p.log.Abandon()
	default:
		p.log.End()
	}
	close(p.done)
	return true
}
