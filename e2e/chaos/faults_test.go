//go:build e2e

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/test/moments"
	"github.com/corral-exec/corral/internal/test/traces"
	"github.com/corral-exec/corral/runner"
)

// While the disk is full commands wait, and go on when there is room; also over
// the death of a gateway. What is asked for meanwhile is refused, and not run.
func TestDiskFull(t *testing.T) {
	s := newSite(t)
	left := traces.New(t, s.dir)
	if err := os.Mkdir(s.state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", s.state, "tmpfs", 0, "size=64m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		if err := unix.Unmount(s.state, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s.begin()
	l, stop := s.load(t)
	l.patient = true // one that ends while the disk is full cannot be removed yet
	done := make(chan struct{})
	r := moments.Seeded(t, "CORRAL_CHAOS_SEED")
	var working sync.WaitGroup
	// Sessions that are under way go through the full disk; each is one that
	// prints, since those that begin anew are refused.
	for n := range 8 {
		j := kinds[1+n%2](r, int64(1000+n))
		j.cmd.Shell = fmt.Sprintf("./testprog pattern 6000000 %d 20000 10ms; exit 3", 1000+n)
		j.cmd.ID, j.cmd.Elevated = fmt.Sprintf("full%d", n), n%2 == 0
		j.cmd.Shell = "echo ran >>runs/" + j.cmd.ID + "; " + j.cmd.Shell
		j.code, j.seed, j.size = 3, uint64(1000+n), 6_000_000
		working.Go(func() { l.one(j, l.agents[n/2%2]) })
	}
	for (l.begun.Load() < 8 || l.bytes.Load() < 3_000_000) && !t.Failed() {
		time.Sleep(10 * time.Millisecond)
	}
	filler := filepath.Join(s.state, "filler")
	fill(t, filler)
	before := l.bytes.Load()
	s.kill()
	s.begin()
	s.await(l.agents[0])
	time.Sleep(2 * time.Second)
	fill(t, filler) // what the logs may have found free meanwhile
	// A disk that is full to the last byte has room in the last pages of files.
	var started []corral.Process
	refused := map[string]bool{}
	for n := range 100 {
		id := fmt.Sprintf("more%d", n)
		p, err := l.agents[0].Start(t.Context(), corral.Command{ID: id, Shell: "echo ran >>runs/" + id, Elevated: true})
		switch {
		case err == nil:
			started = append(started, p)
		case errors.Is(err, corral.ErrUnavailable):
			refused[id] = true
		default:
			t.Errorf("a start on a full disk: %v", err)
		}
	}
	if len(refused) == 0 {
		t.Error("the disk was not full")
	}
	t.Logf("%d bytes were read while the disk was full", l.bytes.Load()-before)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	close(done)
	working.Wait()
	for _, p := range started {
		if exit, err := p.Wait(t.Context()); err != nil || !exit.Success() || s.ran(p.Info().ID) != 1 {
			t.Errorf("%s was started, ended with %+v, %v, and ran %d times", p.Info().ID, exit, err, s.ran(p.Info().ID))
		}
	}
	for id := range refused {
		if n := s.ran(id); n != 0 {
			t.Errorf("%s was refused, and ran %d times", id, n)
		}
	}
	t.Logf("of 100 starts %d were refused", len(refused))
	stop()
	s.clear(left, "main", "other")
}

// fill fills the disk that a file is on.
func fill(t *testing.T, path string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			size /= 2
		}
	}
}

// An engine that keeps containers over its own death takes nothing with it. One
// that ends them takes the sandbox's sessions with it, which are then unknown,
// and nothing else.
func TestEngineRestarts(t *testing.T) {
	for _, live := range []bool{true, false} {
		t.Run(fmt.Sprintf("live-restore=%v", live), func(t *testing.T) {
			s := newSite(t)
			e := newEngine(t, s, live)
			s.begin()
			l, stop := s.load(t)
			long := func(id string, elevated bool) corral.Process {
				p, err := l.agents[0].Start(t.Context(), corral.Command{
					ID: id, Elevated: elevated, Shell: "./testprog pattern 3000000 9 10000 20ms; exit 9"})
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			host, boxed := long("host", true), long("boxed", false)
			for range 3 {
				e.stop()
				if !live {
					s.kill() // and the gateway with it
					s.begin()
				}
				e.start()
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			j := &job{cmd: corral.Command{ID: "host"}, seed: 9, size: 3_000_000}
			check := func(p corral.Process) {
				t.Helper()
				if err := l.read(ctx, j, p); err != nil {
					t.Error(err)
				}
				if exit, err := p.Wait(ctx); err != nil || exit.Code != 9 {
					t.Errorf("%+v, %v", exit, err)
				}
			}
			check(host)
			if live {
				check(boxed)
			} else if exit, err := boxed.Wait(ctx); !errors.Is(err, corral.ErrLost) {
				t.Errorf("it went with its container, and is said to have ended with %+v, %v", exit, err)
			}
			// And the sandbox is usable again.
			again, err := runner.Run(ctx, l.agents[0], shell("echo again"), runner.Options{})
			if err != nil || again.Output.Head != "again\n" || !again.Info.Sandboxed {
				t.Errorf("%+v, %v", again, err)
			}
			stop()
			s.stop()
			s.corral("sandbox", "rm", "--state-dir", s.state, "main")
		})
	}
}

// An engine of the test's own, which it may kill.
type engine struct {
	t    *testing.T
	dir  string
	live bool
	cmd  *exec.Cmd
	log  *os.File
}

func newEngine(t *testing.T, s *site, live bool) *engine {
	t.Helper()
	// A socket's path has at most 107 bytes.
	dir, err := os.MkdirTemp("", "eng")
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, dir: dir, live: live}
	if e.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "DOCKER_HOST=unix://"+dir+"/sock")
	t.Cleanup(func() {
		s.kill()
		if live { // its containers would outlive it
			if out, err := exec.Command("sh", "-c", "docker -H unix://"+dir+"/sock ps -aq | xargs -r docker -H unix://"+dir+"/sock rm -f").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
		e.stop()
		e.log.Close()
		unmountBelow(t, dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	e.start()
	s.corral("images", "ensure", "corral/busybox:1")
	return e
}

// unmountBelow lets go of what an engine that keeps containers left mounted.
func unmountBelow(t *testing.T, dir string) {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			if err := unix.Unmount(f[1], unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	}
}

func (e *engine) start() {
	e.t.Helper()
	e.cmd = exec.Command("dockerd", "--data-root="+e.dir+"/data", "--exec-root="+e.dir+"/exec", "--pidfile="+e.dir+"/pid",
		"--host=unix://"+e.dir+"/sock", "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
		fmt.Sprintf("--live-restore=%v", e.live))
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET} // without a bridge it removes docker0, which is another's
	e.cmd.Stdout, e.cmd.Stderr = e.log, e.log
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("unix", e.dir+"/sock")
		if err == nil {
			conn.Close()
			if exec.Command("docker", "-H", "unix://"+e.dir+"/sock", "version").Run() == nil {
				return
			}
		}
		if time.Now().After(end) {
			b, _ := os.ReadFile(e.log.Name())
			e.t.Fatalf("the engine does not start:\n%s", tail(string(b)))
		}
	}
}

func (e *engine) stop() {
	if e.cmd == nil {
		return
	}
	if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		e.t.Error(err)
	}
	_ = e.cmd.Wait() // its exit code says nothing
	e.cmd = nil
}

func tail(s string) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// Readers that read next to nothing delay no other, and cost the gateway no memory.
func TestSlowReaders(t *testing.T) {
	s := newSite(t)
	s.begin()
	l, stop := s.load(t)
	j := kinds[2](moments.Seeded(t, "CORRAL_CHAOS_SEED"), 77)
	j.cmd.ID, j.cmd.Elevated = "watched", true
	j.size = 200_000_000
	j.cmd.Shell = fmt.Sprintf("echo ran >>runs/watched; ./testprog pattern %d 77; exit 4", j.size)
	p, err := l.agents[0].Start(t.Context(), j.cmd)
	if err != nil {
		t.Fatal(err)
	}
	reading, hangUp := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 40 {
		c := s.client("main")
		readers.Go(func() { dawdle(reading, c) })
	}
	began := time.Now()
	l.one(j, l.agents[0]) // the same command, started again, is read in full
	t.Logf("%d bytes went past 40 slow readers in %v; the gateway has %d KiB", j.size, time.Since(began).Round(time.Millisecond), s.resident()>>10)
	if got := s.resident(); got > 300<<20 { // it is built with the race detector, which multiplies
		t.Errorf("the gateway has %d MiB", got>>20)
	}
	hangUp()
	readers.Wait()
	_ = p
	stop()
}

// dawdle follows the watched session, a byte at a time.
func dawdle(ctx context.Context, c *client.Client) {
	p, err := c.Attach(ctx, "watched")
	if err != nil {
		return // it is over
	}
	for off := int64(0); ctx.Err() == nil; off++ {
		if _, err := p.Log().Read(ctx, off, make([]byte, 1)); err != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// resident is the gateway's memory, in bytes.
func (s *site) resident() int64 {
	s.mu.Lock()
	pid := s.life.cmd.Process.Pid
	s.mu.Unlock()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	var size, resident int64
	if _, serr := fmt.Sscan(string(b), &size, &resident); err != nil || serr != nil {
		s.t.Error(err, serr)
	}
	return resident * int64(os.Getpagesize())
}
