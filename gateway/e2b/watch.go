package e2b

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	pb "github.com/corral-exec/corral/gateway/e2b/envdpb"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/sandbox/files"
)

// A directory is watched by looking at it again and again: what the way into a sandbox's
// files can do. What is made and removed between two looks is not seen.
const (
	lookEvery   = 250 * time.Millisecond
	lookShare   = 20     // a look takes at most this part of the time
	maxWatched  = 10_000 // files in a directory that is watched
	maxWatchers = 64     // of a sandbox; of those that ask from time to time, the last
)

// A look is what was seen of a directory: files by their names below it.
type look map[string]files.Info

func lookAt(ctx context.Context, f files.FS, dir string, recursive bool) (look, error) {
	l, depth := look{}, 1
	if recursive {
		depth = maxDepth
	}
	err := walk(ctx, f, dir, depth, atMost(maxWatched, dir, func(i files.Info) {
		l[strings.TrimPrefix(i.Path, strings.TrimSuffix(dir, "/")+"/")] = i
	}))
	return l, err
}

// changes are the events that lead from one look to the next, by the order of names.
func changes(was, is look) []*pb.FilesystemEvent {
	var events []*pb.FilesystemEvent
	add := func(name string, t pb.EventType) { events = append(events, &pb.FilesystemEvent{Name: name, Type: t}) }
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, ok := is[name]; !ok {
			add(name, pb.EventType_EVENT_TYPE_REMOVE)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		old, ok := was[name]
		now := is[name]
		switch {
		case !ok:
			add(name, pb.EventType_EVENT_TYPE_CREATE)
			if now.Type == files.TypeFile && now.Size > 0 {
				add(name, pb.EventType_EVENT_TYPE_WRITE)
			}
		case now.Type == files.TypeFile && (now.Size != old.Size || !now.ModTime.Equal(old.ModTime)):
			add(name, pb.EventType_EVENT_TYPE_WRITE)
		case now.Mode != old.Mode:
			add(name, pb.EventType_EVENT_TYPE_CHMOD)
		}
	}
	return events
}

// A watch is a directory that is watched.
type watch struct {
	dir       string
	recursive bool
	entries   bool      // events have what the file is
	asked     time.Time // about events, by a client that asks from time to time; watchers.mu
	seen      look

	turn turn.Lock // one look at a time
}

func (s *Server) newWatch(c call, f files.FS, name string, recursive, entries bool) (*watch, error) {
	w := &watch{dir: c.resolve(name), recursive: recursive, entries: entries, asked: time.Now(), turn: turn.New()}
	i, err := f.Stat(c, w.dir)
	if err != nil {
		return nil, err
	}
	if i.Type != files.TypeDir {
		return nil, corral.Errorf(corral.ErrInvalid, "", "path is not a directory: %s", w.dir)
	}
	w.seen, err = lookAt(c, f, w.dir, recursive)
	return w, err
}

// next are the events since the last look.
func (w *watch) next(c call, f files.FS) ([]*pb.FilesystemEvent, error) {
	now, err := lookAt(c, f, w.dir, w.recursive)
	if errors.Is(err, fs.ErrNotExist) {
		now, err = look{}, nil // it may come again
	}
	if err != nil {
		return nil, err
	}
	events := changes(w.seen, now)
	w.seen = now
	for _, e := range events {
		if i, ok := now[e.Name]; ok && w.entries {
			e.Entry = entry(c, f, i)
		}
	}
	return events, nil
}

func (s *Server) watchDir(c call, req *connect.Request[pb.WatchRequest], to *connect.ServerStream[pb.WatchDirResponse]) error {
	f, err := s.files(c)
	if err != nil {
		return err
	}
	w, err := s.newWatch(c, f, req.Msg.GetPath(), req.Msg.GetRecursive(), req.Msg.GetIncludeEntry())
	if err != nil {
		return err
	}
	if err := to.Send(&pb.WatchDirResponse{Event: &pb.WatchDirResponse_Start{Start: &emptypb.Empty{}}}); err != nil {
		return err
	}
	if err := s.watchers.enter(c.box.ID); err != nil {
		return err
	}
	defer s.watchers.leave(c.box.ID)
	every := time.NewTimer(lookEvery)
	defer every.Stop()
	idle := keepAlive(req.Header())
	for silent := time.Now(); ; {
		select {
		case <-c.Done():
			return s.cut(c, nil)
		case <-every.C:
		}
		began := time.Now()
		events, err := w.next(c, f)
		if err != nil {
			return err
		}
		every.Reset(max(lookEvery, lookShare*time.Since(began)))
		for _, e := range events {
			if err := to.Send(&pb.WatchDirResponse{Event: &pb.WatchDirResponse_Filesystem{Filesystem: e}}); err != nil {
				return err
			}
			silent = time.Now()
		}
		if time.Since(silent) >= idle {
			if err := to.Send(&pb.WatchDirResponse{Event: &pb.WatchDirResponse_Keepalive{Keepalive: &emptypb.Empty{}}}); err != nil {
				return err
			}
			silent = time.Now()
		}
	}
}

// watchers serve clients that ask from time to time. They see the state when
// they ask.
type watchers struct {
	mu sync.Mutex
	of map[string]map[string]*watch // by the sandbox's ID and their own
	// streams are how many clients are told at once of what happens, by the sandbox's ID.
	streams map[string]int
}

// enter counts a client of a sandbox that is told at once.
func (ws *watchers) enter(id string) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.streams[id] == maxWatchers {
		return corral.Errorf(api.ErrTooMany, "remove some", "the sandbox has %d watchers", maxWatchers)
	}
	ws.streams[id]++
	return nil
}

func (ws *watchers) leave(id string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.streams[id]--; ws.streams[id] == 0 {
		delete(ws.streams, id)
	}
}

func (ws *watchers) forget(id string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.of, id)
}

func (s *Server) createWatcher(c call, f files.FS, q *pb.WatchRequest) (*pb.Watcher, error) {
	w, err := s.newWatch(c, f, q.GetPath(), q.GetRecursive(), q.GetIncludeEntry())
	if err != nil {
		return nil, err
	}
	ws, id := &s.watchers, "w"+newToken()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.of[c.box.ID] == nil {
		ws.of[c.box.ID] = map[string]*watch{}
	}
	of := ws.of[c.box.ID]
	if len(of) == maxWatchers { // at E2B there is room for all: clients may go away without a word
		delete(of, slices.MinFunc(slices.Collect(maps.Keys(of)), func(a, b string) int { return of[a].asked.Compare(of[b].asked) }))
	}
	of[id] = w
	return &pb.Watcher{WatcherId: id}, nil
}

func (s *Server) watcherEvents(c call, f files.FS, q *pb.Watcher) (*pb.GetWatcherEventsResponse, error) {
	s.watchers.mu.Lock()
	w := s.watchers.of[c.box.ID][q.GetWatcherId()]
	if w != nil {
		w.asked = time.Now()
	}
	s.watchers.mu.Unlock()
	if w == nil {
		return nil, corral.Errorf(corral.ErrNotFound, "", "watcher %.40q not found", q.GetWatcherId())
	}
	if err := w.turn.Take(c); err != nil {
		return nil, err
	}
	defer w.turn.Release()
	events, err := w.next(c, f)
	return &pb.GetWatcherEventsResponse{Events: events}, err
}

func (s *Server) removeWatcher(c call, q *pb.Watcher) (*emptypb.Empty, error) {
	s.watchers.mu.Lock()
	defer s.watchers.mu.Unlock()
	delete(s.watchers.of[c.box.ID], q.GetWatcherId())
	return &emptypb.Empty{}, nil
}
