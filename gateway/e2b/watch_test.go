package e2b

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	pb "github.com/corral-exec/corral/gateway/e2b/envdpb"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/session"
)

// Clients that opened watchers and went away keep no other from watching; one that asks keeps
// its own.
func TestWatchersThatWereLeft(t *testing.T) {
	b, dir := boxFor(time.Hour), t.TempDir()
	s, _ := lifeRig(t, session.Retention{}, b)
	c := call{Context: t.Context(), box: b}
	watch := func() string {
		s.opened.put(b.ID, files.Directory{Root: Home, Path: dir})
		made, err := onFiles(s, s.createWatcher)(c, &pb.WatchRequest{Path: Home})
		if err != nil {
			t.Fatal(err)
		}
		return made.GetWatcherId()
	}
	events := func(id string) ([]*pb.FilesystemEvent, error) {
		s.opened.put(b.ID, files.Directory{Root: Home, Path: dir})
		got, err := onFiles(s, s.watcherEvents)(c, &pb.Watcher{WatcherId: id})
		return got.GetEvents(), err
	}
	mine := watch()
	left := watch()
	for i := range 2 * maxWatchers {
		id := watch()
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{id, mine} {
			if got, err := events(id); err != nil || len(got) != 1 {
				t.Fatalf("after %d watchers: %v, %v", i, got, err)
			}
		}
	}
	if _, err := events(left); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("one that nobody asked: %v", err)
	}
	if n := len(s.watchers.of[b.ID]); n != maxWatchers {
		t.Errorf("there are %d watchers", n)
	}
}

// Whose sandbox does not say what its processes are like keeps no client of another waiting.
func TestProcessesOfOthers(t *testing.T) {
	silent, other := boxFor(time.Hour), boxFor(time.Hour)
	other.Agent = "b"
	s, f := lifeRig(t, session.Retention{}, silent, other)
	var hold atomic.Bool
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	f.exec.Fault = func(op fakeexec.Op, id string) error {
		if op == fakeexec.OpRead && hold.Load() && strings.HasPrefix(id, silent.ID) {
			select {
			case asked <- struct{}{}:
			default:
			}
			<-answer
		}
		return nil
	}
	agent := func(b Box) session.Agent { return s.cfg.Sessions.Agent(b.Agent) }
	slow, _ := s.beginFor(t, silent, "wait")
	quick, p := s.beginFor(t, other, "wait")
	s.procs.Delete(silent.ID) // as in the next life of the gateway
	hold.Store(true)
	listed, own := make(chan int, 1), make(chan error, 1)
	go func() { listed <- len(s.procs.running(slow, agent(silent))) }()
	<-asked
	go func() {
		_, err := s.procs.find(quick, agent(other), &pb.ProcessSelector{Selector: &pb.ProcessSelector_Pid{Pid: p.pid}}, 0)
		own <- err
	}()
	select {
	case err := <-own:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("a client waits for the sandbox of another")
	}
	close(answer)
	if n := <-listed; n != 1 {
		t.Errorf("%d processes", n)
	}
}

// raced are files. One of their directories becomes a file while they are listed.
type raced struct {
	files.Directory
	t *testing.T
}

func (r raced) List(ctx context.Context, dir string, o files.ListOptions) (files.Page, error) {
	page, err := r.Directory.List(ctx, dir, o)
	if name := filepath.Join(r.Path, "b"); dir == "/" {
		if err := errors.Join(os.RemoveAll(name), os.WriteFile(name, nil, 0o600)); err != nil {
			r.t.Error(err)
		}
	}
	return page, err
}

// A directory that has become a file meanwhile does not end a list of all that is around it.
func TestDirectoryBecomesFile(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "b/gone"), 0o700), os.MkdirAll(filepath.Join(dir, "c/there"), 0o700)); err != nil {
		t.Fatal(err)
	}
	seen, err := lookAt(t.Context(), raced{files.Directory{Path: dir, Root: "/"}, t}, "/", true)
	if got := strings.Join(slices.Sorted(maps.Keys(seen)), " "); err != nil || got != "b c c/there" {
		t.Errorf("%s, %v", got, err)
	}
	f := files.Directory{Path: dir, Root: "/"}
	stop := errors.New("it is enough")
	if err := walk(t.Context(), f, "/", 2, func(i files.Info) error {
		if i.Path == "/c/there" {
			return stop
		}
		return nil
	}); !errors.Is(err, stop) {
		t.Errorf("the end of a walk: %v", err)
	}
}

// What is kept of a watched directory is bounded in bytes, too: names can have 4 KiB each.
func TestWatchedBytes(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, strings.Repeat(strings.Repeat("d", 250)+"/", 10))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	f := files.Directory{Path: dir, Root: "/"}
	for n := range 2000 {
		if n == 500 {
			if _, err := lookAt(t.Context(), f, "/", true); err != nil {
				t.Error(err)
			}
		}
		if err := os.WriteFile(filepath.Join(deep, fmt.Sprint(n)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := lookAt(t.Context(), f, "/", true); !errors.Is(err, corral.ErrInvalid) {
		t.Error(err)
	}
}
