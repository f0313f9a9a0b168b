//go:build linux

package warden

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/landlock"
	"github.com/corral-exec/corral/internal/warden/login"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// Options of a Supervisor.
type Options struct {
	// ReapAll makes this process adopt and reap every descendant. It must
	// not be set in a program that waits for children of its own.
	ReapAll bool
	// Cgroup is the path of a cgroup v2 directory that is ours to make
	// children in, or empty.
	Cgroup string
	// OOMScore is /proc/self/oom_score_adj, open for writing, if commands are
	// to be killed for want of memory before this process; else nil. OwnScore
	// is what it said.
	OOMScore *os.File
	OwnScore []byte
	// End ends the program, and all that runs with it. Nil: it does not end by the clock.
	End func()
	// Ledger is a directory in which the supervisor notes what it runs, so that
	// the next one can take it over if this one is killed. Empty: nothing is noted.
	Ledger string
	// TakeOver are directories of ledgers. What supervisors that were killed
	// have noted there is taken over, by ServeDir also when it comes later.
	TakeOver []string
	Log      func(format string, args ...any) // what an operator should know; nil drops it
}

// A Supervisor runs commands for its connections.
type Supervisor struct {
	opts      Options
	logf      func(format string, args ...any)
	devnull   int
	self      int
	maxMark   uint64       // the largest mark, 0 if there are none; see newMark
	hardMark  uint64       // the hard limit of what marks are
	listed    func([]task) // for tests: between a look for a tree and the signal to it
	noPidfd   atomic.Bool  // see send
	oom       oomCounter
	domains   landlock.Starter
	spare     spare
	logins    login.Table
	taking    atomic.Pointer[os.File] // from which a snapshot of a login profile is read; nil: none
	since     uint64                  // tells this supervisor from its successors
	ledger    *ledger
	inherited []*ledger     // of what was taken over
	over      chan struct{} // closed by Close

	// starting makes Start of one ID, on two connections, one start. The
	// runtime forks one at a time anyway.
	starting sync.Mutex
	// looking has a token for each goroutine that looks for processes.
	looking chan struct{}
	// forking is held for reading while a process has been made and is not
	// in procs yet, so that the reaper can tell its children from orphans.
	forking sync.RWMutex

	mu       sync.Mutex
	procs    map[string]*proc
	byPID    map[int]*proc
	oomKnown uint64  // of the kills for memory, how many have been told
	ended    []*proc // not forgotten, oldest first
	clients  map[*client]struct{}
	dials    map[*os.File]*client // sockets that are being connected, and for which client
	ports    map[*portStream]struct{}
	closing  bool
	end      *time.Timer // of the program; nil: none
	ending   bool
	idle     chan struct{} // receives when leave may have become possible; capacity 1
	worked   chan struct{} // receives when something was done; capacity 1
	forks    int           // how many processes were made
	spawned  *sync.Cond    // forks has grown
	wg       sync.WaitGroup
}

// maxEnded bounds the exit statuses that no gateway has acknowledged.
const maxEnded = 4096

// New returns a supervisor. Close ends it.
func New(opts Options) (*Supervisor, error) {
	if opts.Log == nil {
		opts.Log = func(string, ...any) {}
	}
	if err := closeInherited(); err != nil {
		return nil, fmt.Errorf("cannot keep descriptors from commands: %w", err)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", os.DevNull, err)
	}
	s := &Supervisor{
		opts: opts, logf: opts.Log, devnull: null, self: os.Getpid(), since: now(),
		procs: map[string]*proc{}, byPID: map[int]*proc{}, clients: map[*client]struct{}{}, dials: map[*os.File]*client{}, ports: map[*portStream]struct{}{},
		over: make(chan struct{}), idle: make(chan struct{}, 1), worked: make(chan struct{}, 1), looking: make(chan struct{}, lookers),
	}
	s.spawned = sync.NewCond(&s.mu)
	s.learnMarks()
	if s.ledger, err = openLedger(opts.Ledger, s.since, s.logf); err != nil {
		unix.Close(null)
		return nil, err
	}
	s.oom = findOOMCounter()
	if opts.ReapAll {
		// Orphans come to PID 1 anyway, and in gVisor no other process can adopt them.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil && s.self != 1 {
			unix.Close(null)
			s.ledger.close()
			s.oom.close()
			return nil, fmt.Errorf("cannot become a subreaper: %w", err)
		}
		go s.reapAll()
	}
	s.takeOverAll()
	return s, nil
}

// Close kills every command but those that were taken over, lets go of every connection and waits for the
// supervisor's goroutines.
func (s *Supervisor) Close() {
	s.starting.Lock() // or a command that is being started would be missed
	s.mu.Lock()
	s.starting.Unlock()
	s.closing = true
	if s.end != nil {
		s.end.Stop()
	}
	close(s.over)
	if f := s.taking.Load(); f != nil {
		f.Close()
	}
	procs := make([]*proc, 0, len(s.procs))
	for _, p := range s.procs {
		if p.exited == nil && !p.adopted {
			procs = append(procs, p)
		}
	}
	for c := range s.clients {
		c.conn.Close()
	}
	s.mu.Unlock()
	s.cutPorts(nil)
	for _, p := range procs {
		s.killTree(p)
	}
	s.wg.Wait()
	s.mu.Lock()
	for _, p := range s.procs {
		p.release(false)
	}
	s.procs = nil
	s.mu.Unlock()
	s.domains.Close()
	s.closeLedgers()
	unix.Close(s.devnull)
	s.oom.close()
}

// leave begins the end of a supervisor that has nothing to keep: no command runs, or has
// ended and was not acknowledged, and no gateway is connected. From then on it greets none.
// With asked, it has also been asked to end, and nothing has been started since.
func (s *Supervisor) leave(asked bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if asked && !s.ending || len(s.procs) > 0 || len(s.clients) > 0 {
		return false
	}
	s.closing = true
	return true
}

// WaitForCommands returns when no command runs.
func (s *Supervisor) WaitForCommands() {
	for {
		s.mu.Lock()
		running := 0
		for _, p := range s.procs {
			if p.exited == nil {
				running++
			}
		}
		s.mu.Unlock()
		if running == 0 {
			return
		}
		<-s.idle
	}
}

// Since tells this supervisor from others; it is what Hello says.
func (s *Supervisor) Since() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since
}

// Worked receives a value when something was done since it last did.
func (s *Supervisor) Worked() <-chan struct{} { return s.worked }

func (s *Supervisor) noteIdle() {
	tell(s.idle)
	tell(s.worked)
}

// client is one connection.
type client struct {
	s    *Supervisor
	conn *outbox
	over chan struct{} // closed when it is no longer served

	greeting bool // it is being answered Hello; under Supervisor.mu

	terminalFirst bool // see wire.FeatureTerminalFirst
	oneWay        bool // see wire.FeatureOneWay
	cuts          int  // how often its connections to ports were cut; under Supervisor.mu

	// On a byte stream, whose turn it is: see stale.
	epoch string
	since uint64
}

// clockBack is by how much an operator may set the clock back without the next
// gateway being taken for an earlier one.
const clockBack = 15 * time.Second

// stale tells whether a message is of a gateway, or of a connection of it, that
// has been followed by another: engines can deliver what was sent over a broken
// connection after the first of what was sent over the next.
func (c *client) stale(m *wire.Message) bool {
	if c.conn.PassesFiles() {
		return false
	}
	if m.Type != wire.Hello {
		return m.Epoch != c.epoch
	}
	if m.StartedAt < c.since && c.since-m.StartedAt < uint64(clockBack) {
		return true
	}
	c.epoch, c.since = m.Epoch, m.StartedAt
	return false
}

// Serve answers one connection until it ends. Commands go on after it.
func (s *Supervisor) Serve(conn wire.Conn) error {
	c := &client{s: s, conn: newOutbox(conn), over: make(chan struct{})}
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		conn.Close()
		return errors.New("the warden is closing")
	}
	s.clients[c] = struct{}{}
	s.wg.Add(1)
	s.mu.Unlock()
	defer s.wg.Done()
	defer s.disconnect(c)
	for {
		c.conn.ready()
		m, fds, err := conn.Recv()
		if errors.Is(err, wire.ErrNotPassed) { // so nothing is done of it
			if err := c.answer(m, failf(wire.CodeUnavailable, "%v in the warden", err)); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
				return nil
			}
			return err
		}
		if err := c.handle(m, fds); err != nil {
			return err
		}
	}
}

// disconnect lets go of a connection: its processes wait for the next.
func (s *Supervisor) disconnect(c *client) {
	s.cutPorts(c)
	c.conn.end()
	s.detach(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c)
	defer s.cutDials(c) // those that have begun since
	close(c.over)
	s.noteIdle()
}

// hearOut waits until everything that gateways said which are gone has been
// done. After that, what a new one does not find was never started. One that is
// being greeted has asked for nothing yet, and may be waiting here itself.
func (s *Supervisor) hearOut(c *client) {
	s.mu.Lock()
	c.greeting = true
	var gone []*client
	for other := range s.clients {
		if !other.greeting && other.conn.HungUp() {
			gone = append(gone, other)
		}
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.greeting = false
	}()
	for _, other := range gone {
		<-other.over // all that it said is here, so this takes no waiting for others
	}
}

func (s *Supervisor) detach(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.procs {
		if p.owner == c {
			p.owner = nil
			if p.streams != nil {
				p.streams.detach(c.conn)
			}
		}
	}
}

// fail is an answer to a request that was refused.
type fail struct {
	code wire.Code
	text string
}

func (f *fail) Error() string { return f.text }

func failf(code wire.Code, format string, args ...any) *fail {
	return &fail{code, fmt.Sprintf(format, args...)}
}

// handle answers one message. An error ends the connection.
func (c *client) handle(m *wire.Message, fds []int) error {
	if m.Type != wire.Start && m.Type != wire.Keep {
		closeFDs(fds)
		fds = nil
	}
	if c.stale(m) {
		return nil
	}
	var f *fail
	switch m.Type {
	case wire.Hello:
		return c.hello(m)
	case wire.Start:
		return c.start(m, fds)
	case wire.Attach:
		return c.attach(m)
	case wire.Signal:
		// Looking for the tree takes a while; others should not wait.
		c.s.wg.Add(1)
		go func() {
			defer c.s.wg.Done()
			_ = c.answer(m, c.s.signal(m.ID, int(m.Signal))) // a broken connection ends Recv too
		}()
		return nil
	case wire.Resize:
		f = c.s.resize(m.ID, m.Rows, m.Cols)
	case wire.CloseStdin:
		f = c.s.closeStdin(m.ID, m.Offset)
	case wire.Keep:
		f = c.s.keep(m.ID, fds)
	case wire.Forget:
		for _, id := range m.Args {
			c.s.forget(id)
		}
		return nil
	case wire.EndAfter:
		f = c.s.endAfter(m.Timeout)
	case wire.Dial:
		return c.dialPort(m)
	case wire.PortData, wire.PortAck, wire.PortClose:
		c.portMessage(m)
		return nil
	case wire.Shutdown:
		f = c.s.shutdown(c)
	case wire.Input:
		f = c.s.input(m)
		if f == nil {
			return nil // acknowledged when the process has taken it
		}
	case wire.OutputAck:
		c.s.outputAck(m.ID, int64(m.Offset))
		return nil
	default:
		f = failf(wire.CodeUnsupported, "message type %d is not known to this warden", m.Type)
	}
	return c.answer(m, f)
}

func (c *client) answer(m *wire.Message, f *fail) error {
	if f != nil {
		return c.conn.Send(&wire.Message{Type: wire.Error, Req: m.Req, ID: m.ID, Code: f.code, Text: f.text})
	}
	return c.conn.Send(&wire.Message{Type: wire.OK, Req: m.Req, ID: m.ID})
}

// features are optional parts of the protocol that this warden has.
var features = []string{"mark", wire.FeatureDomain, wire.FeatureDial, wire.FeatureEndAfter, wire.FeaturePacked}

func (c *client) hello(m *wire.Message) error {
	if m.Version != wire.Version {
		return c.answer(m, failf(wire.CodeVersion, "this warden speaks version %d of the protocol, not %d", wire.Version, m.Version))
	}
	if !c.conn.PassesFiles() {
		c.s.detach(c) // a new gateway speaks on the same stream
		c.s.cutPorts(c)
		c.conn.drop()
	}
	c.terminalFirst = slices.Contains(m.Features, wire.FeatureTerminalFirst)
	c.oneWay = slices.Contains(m.Features, wire.FeatureOneWay)
	wire.Pack(c.conn.Conn, slices.Contains(m.Features, wire.FeaturePacked))
	c.s.hearOut(c)
	err := c.conn.Send(&wire.Message{Type: wire.Hello, Req: m.Req, Version: wire.Version, Features: features,
		Epoch: m.Epoch, PID: uint64(c.s.self), StartedAt: c.s.Since()})
	if err != nil {
		return err
	}
	for _, item := range c.s.items() {
		item.Req = m.Req
		if err := c.conn.Send(item); err != nil {
			return err
		}
	}
	return c.answer(m, nil)
}

func (s *Supervisor) items() []*wire.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []*wire.Message
	for _, p := range s.procs {
		items = append(items, p.item())
	}
	return items
}

// endAfter has this program end some time from now, whether or not a gateway is there
// then. The time that was said last counts.
func (s *Supervisor) endAfter(after uint64) *fail {
	if s.opts.End == nil {
		return failf(wire.CodeUnsupported, "this warden ends when nothing is left to do")
	}
	if after > math.MaxInt64 {
		return failf(wire.CodeInvalid, "the time of %d ns is out of range", after)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return failf(wire.CodeUnavailable, "the warden is closing")
	}
	if s.end != nil {
		s.end.Stop()
		s.end = nil
	}
	if after > 0 {
		s.end = time.AfterFunc(time.Duration(after), s.opts.End)
	}
	return nil
}

// shutdown lets an idle host warden end as soon as its last connection does.
func (s *Supervisor) shutdown(c *client) *fail {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.procs) > 0 || len(s.clients) > 1 {
		return failf(wire.CodeBusy, "%d commands and %d other connections are left", len(s.procs), len(s.clients)-1)
	}
	s.ending = true
	return nil
}

func (s *Supervisor) lookup(id string) (*proc, *fail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.procs[id]
	if p == nil {
		return nil, failf(wire.CodeNotFound, "no process %s", id)
	}
	return p, nil
}

// forget drops an ended process; a descendant that still has its output open
// goes on, and writes into nothing.
func (s *Supervisor) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.procs[id]; p != nil && p.exited != nil {
		s.drop(p)
	}
}

func (s *Supervisor) drop(p *proc) {
	delete(s.procs, p.id)
	for i, e := range s.ended {
		if e == p {
			s.ended = append(s.ended[:i], s.ended[i+1:]...)
			break
		}
	}
	p.release(!s.closing)
	s.removeCgroup(p)
	s.noteIdle()
}

func (s *Supervisor) signal(id string, sig int) *fail {
	p, f := s.lookup(id)
	if f != nil {
		// Forgotten, but its descendants still carry its ID.
		p = &proc{id: id, reaped: true, slot: noSlot}
		if s.opts.Cgroup != "" {
			p.cgroup = s.opts.Cgroup + "/" + id
		}
	}
	if len(id) > 64 || strings.ContainsAny(id, "/\x00") || id == "" {
		return failf(wire.CodeInvalid, "no process can have that id")
	}
	if sig < 1 || sig > 64 {
		return failf(wire.CodeInvalid, "no signal has the number %d", sig)
	}
	if unix.Signal(sig) == unix.SIGKILL {
		s.mu.Lock()
		p.killed = true
		s.mu.Unlock()
		if n := s.killTree(p); n == 0 {
			return failf(wire.CodeEnded, "nothing of process %s is left", id)
		}
		return nil
	}
	if s.strike(p, unix.Signal(sig), map[int]bool{}) == 0 {
		return failf(wire.CodeEnded, "nothing of process %s is left", id)
	}
	return nil
}

// closeInherited makes sure that no command gets a descriptor that this process
// was started with and does not know of.
func closeInherited() error {
	const first = 3
	if unix.CloseRange(first, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	// Linux before 5.11, and gVisor.
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	for _, name := range names {
		if fd, nerr := strconv.Atoi(name); nerr == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
	return err
}

func now() uint64 { return uint64(time.Now().UnixNano()) }

// closeFDs closes pipes and terminals, which never waits: the runtime need not
// know.
func closeFDs(fds []int) {
	for _, fd := range fds {
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	}
}
