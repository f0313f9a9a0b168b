package e2b

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/access"
	pb "github.com/corral-exec/corral/gateway/e2b/envdpb"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/session"
)

// fakeBoxes are sandboxes whose commands are fakes. root is what root has changed in the
// only one.
type fakeBoxes struct {
	Sandboxes
	exec *fakeexec.Executor

	mu      sync.Mutex
	removed map[string]int // how often that was tried
	remove  func(id string) error
	pause   func() error // nil: it is paused
	warm    error        // the next time
	warming func()       // nil: nothing
	home    string       // a directory; empty: commands have the files
	restore error        // likewise
	root    string
}

func (f *fakeBoxes) once(err *error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	is := *err
	*err = nil
	return is
}

func (f *fakeBoxes) EndAfter(context.Context, string, string, time.Duration) error { return nil }
func (f *fakeBoxes) Forget(string) error                                           { return nil }
func (f *fakeBoxes) Resume(context.Context, string) error                          { return nil }

func (f *fakeBoxes) Warm(context.Context, string) error {
	if f.warming != nil {
		f.warming()
	}
	return f.once(&f.warm)
}

func (f *fakeBoxes) Pause(context.Context, string) error {
	if f.pause == nil {
		return nil
	}
	return f.pause()
}

func (f *fakeBoxes) Stop(context.Context, string, string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.root = ""
	return nil
}

func (f *fakeBoxes) Remove(_ context.Context, id string) error {
	f.mu.Lock()
	if f.removed == nil {
		f.removed = map[string]int{}
	}
	f.removed[id]++
	f.mu.Unlock()
	if f.remove == nil {
		return nil
	}
	return f.remove(id)
}

func (f *fakeBoxes) tried(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.removed[id]
}

func (f *fakeBoxes) Get(context.Context, string) (api.Sandbox, error) {
	return api.Sandbox{Root: true}, nil
}

func (f *fakeBoxes) DialPort(context.Context, string, string, int) (net.Conn, error) {
	return nil, corral.Errorf(corral.ErrNotListening, "", "nothing listens")
}

func (f *fakeBoxes) Files(context.Context, string, string) (files.FS, error) {
	all := files.Sandbox{Root: Home, Others: files.Commands{Exec: f, Root: "/"}}
	if f.home != "" {
		all.Workspace = files.Directory{Path: f.home, Root: Home}
	}
	return all, nil
}

// Start runs the commands by which root's changes are kept.
func (f *fakeBoxes) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	text := cmd.Shell + strings.Join(cmd.Args, " ")
	cmd.Shell, cmd.Args = "", []string{"begin"}
	switch {
	case strings.Contains(text, "tar --null"):
		cmd.Args = []string{"save"}
	case strings.Contains(text, "-xpf"):
		cmd.Args = []string{"restore"}
	}
	return f.exec.Start(ctx, cmd)
}

func (f *fakeBoxes) Attach(ctx context.Context, id string) (corral.Process, error) {
	return f.exec.Attach(ctx, id)
}

func (f *fakeBoxes) programs() map[string]fakeexec.Program {
	return map[string]fakeexec.Program{
		"begin": func(*fakeexec.IO) int { return 0 },
		"save": func(o *fakeexec.IO) int {
			f.mu.Lock()
			defer f.mu.Unlock()
			_, _ = io.WriteString(o.Stdout, f.root)
			return 0
		},
		"restore": func(o *fakeexec.IO) int {
			b, _ := io.ReadAll(o.Stdin)
			if f.once(&f.restore) != nil {
				return 1
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.root = string(b)
			return 0
		},
		"print": fakeexec.Print("out", "", 7),
		"wait":  fakeexec.Sleep,
		"big": func(o *fakeexec.IO) int {
			for range 64 {
				_, _ = o.Stdout.Write(bytes.Repeat([]byte("x"), 1<<20))
			}
			return 7
		},
	}
}

// lifeRig serves sandboxes of a store, which are added to it before.
func lifeRig(t *testing.T, keep session.Retention, boxes ...Box) (*Server, *fakeBoxes) {
	t.Helper()
	f := &fakeBoxes{}
	f.exec = &fakeexec.Executor{Info: corral.Info{Host: corral.HostSandbox, Dir: "/work"}, Programs: f.programs()}
	m, err := session.Open(t.Context(), session.Config{Dir: testdir.New(t), Retention: keep, Executor: func(context.Context, string) (corral.Executor, error) { return f.exec, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Close()
		f.exec.Close()
	})
	store, err := OpenStore(filepath.Join(testdir.New(t), "e2b"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range boxes {
		if err := store.add(b, 100); err != nil {
			t.Fatal(err)
		}
	}
	s := New(Config{
		Store: store, Sandboxes: f, Sessions: m,
		Grant: func(string) *access.Grant { return access.Token }, Settings: func() config.E2B { return config.E2B{} },
	})
	t.Cleanup(s.Close)
	return s, f
}

func boxFor(left time.Duration) Box {
	return Box{ID: newID(), Agent: "a", Started: time.Now().UTC(), End: time.Now().Add(left).UTC(), Token: newToken()}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatal("not seen: ", what)
		}
	}
}

// A sandbox is not ended by what was known of it when its time was over: its client may have
// put that off, or paused it, before it was its turn.
func TestEndPutOff(t *testing.T) {
	put, paused := boxFor(200*time.Millisecond), boxFor(200*time.Millisecond)
	s, f := lifeRig(t, session.Retention{}, put, paused)
	var free []func()
	for _, b := range []Box{put, paused} {
		release, err := s.turns.Take(t.Context(), b.ID)
		if err != nil {
			t.Fatal(err)
		}
		free = append(free, release)
	}
	time.Sleep(500 * time.Millisecond) // their ends wait for their turns
	for id, change := range map[string]func(*Box) error{
		put.ID:    func(b *Box) error { b.End = time.Now().Add(time.Hour); return nil },
		paused.ID: func(b *Box) error { b.Paused = true; return nil },
	} {
		if _, err := s.cfg.Store.change(id, change); err != nil {
			t.Fatal(err)
		}
	}
	for _, release := range free {
		release()
	}
	time.Sleep(200 * time.Millisecond)
	for _, b := range []Box{put, paused} {
		if _, ok := s.cfg.Store.Get(b.ID); !ok || f.tried(b.ID) != 0 {
			t.Errorf("%s was removed", b.ID)
		}
	}
}

// One that takes long to be removed delays no other; a kill that failed is tried again.
func TestEndsBesideEachOther(t *testing.T) {
	slow, other, killed := boxFor(0), boxFor(100*time.Millisecond), boxFor(time.Hour)
	s, f := lifeRig(t, session.Retention{})
	hold := make(chan struct{})
	f.remove = func(id string) error {
		switch {
		case id == slow.ID:
			<-hold
		case id == killed.ID && f.tried(id) == 1:
			return errors.New("the engine is busy")
		}
		return nil
	}
	for _, b := range []Box{slow, other, killed} {
		if err := s.cfg.Store.add(b, 100); err != nil {
			t.Fatal(err)
		}
	}
	s.again()
	eventually(t, "the end of the other", func() bool { _, ok := s.cfg.Store.Get(other.ID); return !ok })
	if err := s.Kill(t.Context(), killed.ID); err == nil {
		t.Error("the kill did not fail")
	}
	eventually(t, "a second kill", func() bool { _, ok := s.cfg.Store.Get(killed.ID); return !ok })
	close(hold)
	eventually(t, "the end of the slow one", func() bool { _, ok := s.cfg.Store.Get(slow.ID); return !ok })
}

// What root changed is also in a copy of a sandbox whose container is gone.
func TestCopyOfStopped(t *testing.T) {
	const changes = "what apt-get installed"
	b, to := boxFor(time.Hour), boxFor(time.Hour)
	b.Root, to.Root = true, true
	s, f := lifeRig(t, session.Retention{}, b, to)
	f.root = changes
	if err := s.freeze(t.Context(), b.ID, true, always); err != nil {
		t.Fatal(err)
	}
	b, _ = s.cfg.Store.Get(b.ID)
	if err := s.copyRoot(t.Context(), b, to); err != nil || f.root != changes {
		t.Errorf("%q, %v", f.root, err)
	}
}

// A sandbox that could not be paused ends at its time, also if that was looked at meanwhile.
func TestPauseFails(t *testing.T) {
	b := boxFor(time.Second)
	s, f := lifeRig(t, session.Retention{}, b)
	f.pause = func() error {
		s.again()
		time.Sleep(100 * time.Millisecond)
		return errors.New("the engine is busy")
	}
	if err := s.freeze(t.Context(), b.ID, false, always); err == nil {
		t.Error("the pause did not fail")
	}
	eventually(t, "its end", func() bool { _, ok := s.cfg.Store.Get(b.ID); return !ok })
}

// A sandbox whose time is shorter than it takes to make it has all of that when it is there,
// and a kill waits until then: else what is made afterwards would be nobody's.
func TestEndWhileMade(t *testing.T) {
	s, f := lifeRig(t, session.Retention{})
	b := boxFor(100 * time.Millisecond)
	made, err := s.make(t.Context(), b, false, func(context.Context, Box) error {
		time.Sleep(200 * time.Millisecond)
		s.again()
		time.Sleep(100 * time.Millisecond)
		return nil
	})
	if err != nil || time.Until(made.End) <= 0 {
		t.Errorf("it was made until %v, %v", made.End, err)
	}
	b = boxFor(time.Hour)
	killed := make(chan error, 1)
	if _, err := s.make(t.Context(), b, false, func(context.Context, Box) error {
		go func() { killed <- s.Kill(t.Context(), b.ID) }()
		time.Sleep(100 * time.Millisecond)
		if f.tried(b.ID) > 0 {
			t.Error("it was removed before it was made")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := <-killed; err != nil || f.tried(b.ID) != 1 {
		t.Errorf("it was removed %d times, %v", f.tried(b.ID), err)
	}
	b = boxFor(time.Hour)
	if _, err := s.make(t.Context(), b, false, func(context.Context, Box) error { return corral.ErrUnavailable }); !errors.Is(err, corral.ErrUnavailable) || f.tried(b.ID) != 1 {
		t.Errorf("what could not be made was removed %d times, %v", f.tried(b.ID), err)
	}
}

// A sandbox that was paused without what was in memory, and cannot be resumed, stays as it
// was, with what root changed in it; also if the gateway is killed meanwhile.
func TestResumeFails(t *testing.T) {
	const changes = "what apt-get installed"
	b := boxFor(time.Hour)
	b.Root = true
	for what, fail := range map[string]func(*fakeBoxes){
		"no container": func(f *fakeBoxes) { f.warm = errors.New("the engine is busy") },
		"no restore":   func(f *fakeBoxes) { f.restore = errors.New("the engine is busy") },
	} {
		t.Run(what, func(t *testing.T) {
			s, f := lifeRig(t, session.Retention{}, b)
			f.root = changes
			if err := s.freeze(t.Context(), b.ID, true, always); err != nil {
				t.Fatal(err)
			}
			f.mu.Lock()
			fail(f)
			f.mu.Unlock()
			if resumed, err := s.thaw(t.Context(), b.ID, b.End, ""); err == nil || resumed {
				t.Errorf("resumed: %v, %v", resumed, err)
			}
			if got, _ := s.cfg.Store.Get(b.ID); !got.Paused || !got.Stopped {
				t.Errorf("paused %v, stopped %v", got.Paused, got.Stopped)
			}
			if resumed, err := s.thaw(t.Context(), b.ID, b.End, ""); err != nil || !resumed || f.root != changes {
				t.Errorf("resumed: %v, %v, with %q", resumed, err, f.root)
			}
			if got, _ := s.cfg.Store.Get(b.ID); got.Paused || got.Stopped {
				t.Errorf("paused %v, stopped %v", got.Paused, got.Stopped)
			}
		})
	}
	store, err := OpenStore(filepath.Join(testdir.New(t), "e2b"))
	if err != nil {
		t.Fatal(err)
	}
	b.Stopped = true // and not paused: it was being resumed
	if err := store.add(b, 1); err != nil {
		t.Fatal(err)
	}
	if store, err = OpenStore(store.dir); err != nil {
		t.Fatal(err)
	}
	if got, _ := store.Get(b.ID); !got.Paused {
		t.Error("after a crash while it was resumed it counts as running")
	}
}

// Who has the ID of a sandbox alone runs no code in it, however the port and the path are
// written.
func TestCodeNeedsToken(t *testing.T) {
	b := boxFor(time.Hour)
	b.Preset = codePreset
	s, _ := lifeRig(t, session.Retention{}, b)
	for target, in := range map[string]bool{
		"49999 /execute": false, "049999 /execute": false, "+49999 /execute": false, "49999 //execute": false,
		"49999 /execute/": false, "49999 /%65xecute": false, "49999 /contexts/../execute": true, // which is no path of the interpreter's
		"49999 /contexts": true, "49999 /health": true, "8080 /execute": true,
	} {
		port, path, _ := strings.Cut(target, " ")
		r := httptest.NewRequest(http.MethodPost, "http://host"+path, strings.NewReader("{}"))
		r.Header.Set("E2b-Sandbox-Id", b.ID)
		r.Header.Set("E2b-Sandbox-Port", port)
		if _, _, err := s.Port(r); (err == nil) != in {
			t.Errorf("%s: %v", target, err)
		}
		r.Header.Set("X-Access-Token", b.Token)
		if _, _, err := s.Port(r); err != nil && port == codePort {
			t.Errorf("%s with the token: %v", target, err)
		}
	}
}

// A sandbox that is paused is woken up for nobody who may not call it: neither for one who has
// its ID alone, nor after the end of the key by which it was used.
func TestWakesForNobody(t *testing.T) {
	for what, test := range map[string]struct {
		token, ended, port, paused bool
	}{
		"health without the token":  {paused: true},
		"health with the token":     {token: true},
		"health, and the key ended": {token: true, ended: true, paused: true},
		"a port":                    {port: true},
		"a port, and the key ended": {port: true, ended: true, paused: true},
	} {
		t.Run(what, func(t *testing.T) {
			b := boxFor(time.Hour)
			b.Paused, b.ResumeOnCall = true, true
			s, _ := lifeRig(t, session.Retention{}, b)
			if test.ended {
				s.cfg.Grant = func(string) *access.Grant { return access.Nothing }
			}
			r := httptest.NewRequest(http.MethodGet, "http://host/health", nil)
			if test.token {
				r.Header.Set("X-Access-Token", b.Token)
			}
			var err error
			if test.port {
				r.Header.Set("E2b-Sandbox-Id", b.ID)
				r.Header.Set("E2b-Sandbox-Port", "8080")
				_, _, err = s.Port(r)
			} else {
				_, _, err = s.Sandbox(r, b.ID, true)
			}
			if got, _ := s.cfg.Store.Get(b.ID); got.Paused != test.paused || (err != nil) != test.paused {
				t.Errorf("paused: %v, %v", got.Paused, err)
			}
		})
	}
}

func (s *Server) beginFor(t *testing.T, b Box, program string) (call, *proc) {
	t.Helper()
	c := call{Context: t.Context(), box: b}
	p, err := s.begin(c, &pb.StartRequest{Process: &pb.ProcessConfig{Cmd: program}})
	if err != nil {
		t.Fatal(err)
	}
	return c, p
}

// A client that was there all the time is told how its process ended, also if so many others
// ended meanwhile that it would be forgotten.
func TestSlowClientIsTold(t *testing.T) {
	b := boxFor(time.Hour)
	s, _ := lifeRig(t, session.Retention{Count: 3}, b)
	c, p := s.beginFor(t, b, "print")
	var end *pb.ProcessEvent_EndEvent
	err := s.follow(c, p, http.Header{}, 0, func(r *pb.ProcessResponse) error {
		e := r.GetEvent()
		if e.GetData() != nil {
			for range 5 {
				_, other := s.beginFor(t, b, "print")
				if _, err := other.session.Wait(t.Context()); err != nil {
					return fmt.Errorf("another one: %w", err)
				}
			}
			time.Sleep(1500 * time.Millisecond) // more than the pause between two sweeps
		}
		end = e.GetEnd()
		return nil
	})
	if end == nil || end.ExitCode != 7 {
		t.Errorf("%v, %v", end, err)
	}
}

// After a gap a client gets what is kept, and the end.
func TestConnectAfterGap(t *testing.T) {
	b := boxFor(time.Hour)
	s, _ := lifeRig(t, session.Retention{}, b)
	c, p := s.beginFor(t, b, "big")
	if _, err := p.session.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for tries := 1; ; tries++ { // there may be a gap behind the head that is kept
		from, _ := p.rest()
		var end *pb.ProcessEvent_EndEvent
		err := s.follow(c, p, http.Header{}, from, func(r *pb.ProcessResponse) error { end = r.GetEvent().GetEnd(); return nil })
		if err == nil && end != nil && end.ExitCode == 7 && tries > 1 {
			return
		}
		if !errors.Is(err, corral.ErrLost) || tries > 3 {
			t.Fatalf("connection %d: %v, %v", tries, end, err)
		}
	}
}
