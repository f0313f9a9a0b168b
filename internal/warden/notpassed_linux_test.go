package warden

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// unpassable is a connection of a user who has too many descriptors on their way.
type unpassable struct {
	*wire.Packets
	full *atomic.Bool
}

func (u unpassable) Send(m *wire.Message, fds ...int) error {
	if u.full.Load() && len(fds) > 0 {
		return unix.ETOOMANYREFS
	}
	return u.Packets.Send(m, fds...)
}

func (u unpassable) TrySend(m *wire.Message, fds ...int) (bool, error) {
	if u.full.Load() && len(fds) > 0 {
		return false, unix.ETOOMANYREFS
	}
	return u.Packets.TrySend(m, fds...)
}

// ask sends a request, and returns the answer with how many descriptors came.
func ask(t *testing.T, gw *wire.Packets, m *wire.Message, send ...int) (*wire.Message, int) {
	t.Helper()
	if err := gw.Send(m, send...); err != nil {
		t.Fatal(err)
	}
	passed := 0
	for {
		got, fds, err := gw.Recv()
		if err != nil {
			t.Fatalf("%+v has no answer: %v", m, err)
		}
		closeFDs(fds)
		passed += len(fds)
		if got.Req == m.Req && got.Type != wire.Terminal && got.Type != wire.Item && got.Type != wire.Hello {
			return got, passed
		}
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// unserved is a supervisor and two connected ends. It does not serve them yet.
func unserved(t *testing.T) (s *Supervisor, gw, theirs *wire.Packets) {
	t.Helper()
	return unservedWith(t, Options{Log: t.Logf})
}

func unservedWith(t *testing.T, opts Options) (s *Supervisor, gw, theirs *wire.Packets) {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if gw, theirs, err = wire.PacketPair(); err != nil {
		t.Fatal(err)
	}
	return s, gw, theirs
}

// Where the kernel passes no descriptor, a start on a terminal fails before
// anything runs, what runs can be attached to later, and the connection stays.
func TestDescriptorsNotPassed(t *testing.T) {
	s, gw, theirs := unserved(t)
	full := &atomic.Bool{}
	served := make(chan error, 1)
	go func() { served <- s.Serve(unpassable{theirs, full}) }()
	ask(t, gw, &wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version, Features: []string{wire.FeatureTerminalFirst}})

	dir := t.TempDir()
	start := func(req uint64, id, text string) (*wire.Message, int) {
		return ask(t, gw, &wire.Message{Type: wire.Start, Req: req, ID: id, Dir: dir, Flags: wire.FlagTTY, Rows: 24, Cols: 80,
			Env: []string{"PATH=/usr/bin:/bin"}, Args: []string{"/bin/sh", "-c", text}}, relay(t)...)
	}
	if m, passed := start(2, "before", "sleep 60"); m.Type != wire.Started || passed != 1 {
		t.Fatalf("a terminal: %+v with %d descriptors", m, passed)
	}
	full.Store(true)
	fds := openFDs(t)
	m, passed := start(3, "refused", "touch ran")
	if m.Type != wire.Error || m.Code != wire.CodeUnavailable || passed != 0 || !strings.Contains(m.Text, "descriptors") {
		t.Errorf("a terminal that cannot be passed: %+v with %d descriptors", m, passed)
	}
	if m, _ := ask(t, gw, &wire.Message{Type: wire.Attach, Req: 4, ID: "before"}); m.Type != wire.Error || m.Code != wire.CodeUnavailable {
		t.Errorf("attaching to what cannot be passed: %+v", m)
	}
	if now := openFDs(t); now > fds+2 { // but for the relay that the test has open
		t.Errorf("%d descriptors are open, and %d were before", now, fds)
	}
	full.Store(false)
	if m, passed := ask(t, gw, &wire.Message{Type: wire.Attach, Req: 5, ID: "before"}); m.Type != wire.Started || passed != 3 {
		t.Errorf("attaching afterwards: %+v with %d descriptors", m, passed)
	}
	if m, passed := start(6, "refused", "touch later; sleep 60"); m.Type != wire.Started || passed != 1 {
		t.Errorf("the same start afterwards: %+v with %d descriptors", m, passed)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "later")); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the second start did not run")
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("what was refused has run")
	}
	gw.Close()
	if err := <-served; err != nil {
		t.Errorf("the connection ended: %v", err)
	}
	s.Close()
}

// relay are the two ends of a pipe, which the warden gets and keeps.
func relay(t *testing.T) []int {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeFDs(p[:]) })
	return p[:]
}

// slow is a connection that takes everything later.
type slow struct{ unpassable }

func (slow) TrySend(*wire.Message, ...int) (bool, error) { return false, nil }

// The connection also stays where a terminal waited behind other messages, and
// could be passed when it was left to wait.
func TestTerminalNotPassedLate(t *testing.T) {
	gw, theirs, err := wire.PacketPair()
	if err != nil {
		t.Fatal(err)
	}
	full := &atomic.Bool{}
	full.Store(true)
	defer time.AfterFunc(20*time.Second, func() { theirs.Close() }).Stop() // one that drops what waits says nothing
	o := newOutbox(slow{unpassable{theirs, full}})
	for _, m := range []*wire.Message{{Type: wire.Terminal, Req: 1, ID: "x"}, {Type: wire.Started, Req: 2, ID: "y"}, {Type: wire.Started, Req: 1, ID: "x"}} {
		var fds []int
		if m.ID == "x" && m.Type == wire.Terminal || m.ID == "y" {
			fds = []int{0}
		}
		if err := o.Send(m, fds...); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []wire.Message{{Type: wire.Error, Req: 2}, {Type: wire.Started, Req: 1}} {
		m, fds, err := gw.Recv()
		if err != nil || len(fds) > 0 || m.Type != want.Type || m.Req != want.Req {
			t.Fatalf("%+v with %d descriptors, %v; want %+v", m, len(fds), err, want)
		}
	}
	o.end()
	gw.Close()
}

// A warden that has too many files open to take a command's descriptors answers so, and
// the connection stays.
func TestDescriptorsNotTaken(t *testing.T) {
	s, gw, theirs := unserved(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(theirs) }()
	ask(t, gw, &wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version, Features: []string{wire.FeatureTerminalFirst}})
	start := &wire.Message{Type: wire.Start, Req: 2, ID: "x", Dir: t.TempDir(), Flags: wire.FlagTTY, Rows: 24, Cols: 80,
		Env: []string{"PATH=/usr/bin:/bin"}, Args: []string{"/bin/sleep", "60"}}
	kept := relay(t)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	serr := gw.Send(start, kept...)
	m, _, err := gw.Recv()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if serr != nil || err != nil || m.Type != wire.Error || m.Req != 2 || m.Code != wire.CodeUnavailable || !strings.Contains(m.Text, "too many open files") {
		t.Fatalf("%+v, %v, %v", m, serr, err)
	}
	start.Req = 3
	if m, passed := ask(t, gw, start, kept...); m.Type != wire.Started || passed != 1 {
		t.Errorf("the same start afterwards: %+v with %d descriptors", m, passed)
	}
	gw.Close()
	if err := <-served; err != nil {
		t.Errorf("the connection ended: %v", err)
	}
	s.Close()
}
