//go:build linux

package warden

import (
	"fmt"
	"math"
	"os"
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
	// Processors is how many of the Go runtime's processors this program has, and has
	// the supervisor use more while it makes several processes at a time. 0: their
	// number is not the supervisor's, and it makes one at a time.
	Processors int
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
	opts     Options
	logf     func(format string, args ...any)
	devnull  int
	self     int
	maxMark  uint64       // the largest mark, 0 if there are none; see newMark
	hardMark uint64       // the hard limit of what marks are
	listed   func([]task) // for tests: between a look for a tree and the signal to it
	noPidfd  atomic.Bool  // see send
	oom      oomCounter
	offers   struct {
		sync.Mutex
		n int // of processes that are being forked; see offer
	}
	domains   landlock.Starter
	spare     spare
	logins    login.Table
	taking    atomic.Pointer[os.File] // from which a snapshot of a login profile is read; nil: none
	since     uint64                  // tells this supervisor from its successors
	ledger    *ledger
	inherited []*ledger     // of what was taken over
	over      chan struct{} // closed by Close

	// beside has a token for each start that is made beside others.
	beside chan struct{}
	// looking has a token for each goroutine that looks for processes.
	looking chan struct{}
	// forking is held for reading while a process has been made and is not
	// in procs yet, so that the reaper can tell its children from orphans.
	forking sync.RWMutex

	mu        sync.Mutex
	making    map[string]struct{} // IDs of the processes that are being made
	begun     *sync.Cond          // making has one fewer
	procs     map[string]*proc
	byPID     map[int]*proc
	oomKnown  uint64  // of the kills for memory, how many have been told
	ended     []*proc // not forgotten, oldest first
	clients   map[*client]struct{}
	dials     map[*os.File]*client // sockets that are being connected, and for which client
	ports     map[*portStream]struct{}
	closing   bool
	spreading *time.Timer // to gather; nil: there are as many processors as Options say
	end       *time.Timer // of the program; nil: none
	ending    bool
	idle      chan struct{} // receives when leave may have become possible; capacity 1
	worked    chan struct{} // receives when something was done; capacity 1
	forks     int           // how many processes were made
	spawned   *sync.Cond    // forks has grown
	wg        sync.WaitGroup
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
		making: map[string]struct{}{}, beside: make(chan struct{}, beside),
		procs: map[string]*proc{}, byPID: map[int]*proc{}, clients: map[*client]struct{}{}, dials: map[*os.File]*client{}, ports: map[*portStream]struct{}{},
		over: make(chan struct{}), idle: make(chan struct{}, 1), worked: make(chan struct{}, 1), looking: make(chan struct{}, lookers),
	}
	s.spawned, s.begun = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
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
	s.mu.Lock()
	s.closing = true
	for len(s.making) > 0 {
		s.begun.Wait() // or a command that is being started would be missed
	}
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
	s.gather()
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
