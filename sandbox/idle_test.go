package sandbox

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// silentWarden is an executor whose warden, the seventh, greets and then says nothing.
func silentWarden(t *testing.T, o wardenexec.Options) *wardenexec.Executor {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() {
		f := wire.NewFrames(theirs, theirs, theirs)
		m, _, err := f.Recv()
		for _, say := range []wire.Type{wire.Hello, wire.OK} {
			if err == nil {
				err = f.Send(&wire.Message{Type: say, Req: m.Req, Epoch: m.Epoch, Version: wire.Version, StartedAt: 7})
			}
		}
		if err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, theirs)
	}()
	o.Untrusted, o.Info, o.Log = true, sandboxInfo, slog.New(slog.DiscardHandler)
	o.Connect = func(context.Context, bool) (wire.Conn, error) { return strictFrames(ours), nil }
	w, err := wardenexec.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// A warden that greets and then says nothing does not keep those waiting who look after all
// sandboxes, one after another.
func TestIdleOfSilentWarden(t *testing.T) {
	defer func(was time.Duration) { settleLimit = was }(settleLimit)
	settleLimit = 50 * time.Millisecond
	w := silentWarden(t, wardenexec.Options{Dir: filepath.Join(testdir.New(t), "warden"), Ephemeral: true})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if idle, err := (&box{warden: w}).idle(ctx, nil); idle || err != nil || ctx.Err() != nil {
		t.Errorf("idle %v, %v, %v", idle, err, ctx.Err())
	}
}

// A box that was there before stays when it cannot be noted as the last one: another program
// may run commands in it. A new one, to which nothing refers, goes.
func TestNotReferredTo(t *testing.T) {
	state := testdir.New(t)
	if err := os.MkdirAll(filepath.Join(sandboxDir(state, "main"), sandboxFile, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	e := &Executor{stateDir: state, name: "main", closed: true}
	for _, boxes := range [][]string{{"a", "b"}, {"b"}, {}} {
		b := &box{boxRecord: boxRecord{Box: Box{ID: "a"}}}
		isNew := len(boxes) < 2
		if err := e.refer(b, sandboxRecord{Name: "main", Boxes: boxes}, false, false); err == nil || b.dead != isNew {
			t.Errorf("%v: dead %v, %v", boxes, b.dead, err)
		}
	}
}

// Who attached to a process has no part in the box any more: a command that gets its ID later
// goes where all others go.
func TestAttachHoldsNothing(t *testing.T) {
	state := testdir.New(t)
	logs := filepath.Join(sandboxDir(state, "main"), logsDir)
	if err := os.MkdirAll(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(logs, wardenexec.JournalName), []byte("S process-1 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Engine: nearEngine{}, StateDir: state, Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	b := &box{boxRecord: boxRecord{Box: Box{ID: "a", Engine: "another"}}, warden: silentWarden(t, wardenexec.Options{Records: e.records}), ids: map[string]int{}}
	e.boxes[b.ID] = b
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.Attach(ctx, "process-1"); err == nil {
		t.Error("the warden says nothing, and the process is found")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if b.users != 0 || len(b.ids) > 0 {
		t.Errorf("the box has %d users, and %v", b.users, b.ids)
	}
}
