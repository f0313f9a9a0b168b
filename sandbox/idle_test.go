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

// A warden that greets and then says nothing does not keep those waiting who look after all
// sandboxes, one after another.
func TestIdleOfSilentWarden(t *testing.T) {
	defer func(was time.Duration) { settleLimit = was }(settleLimit)
	settleLimit = 50 * time.Millisecond
	ours, theirs := net.Pipe()
	go func() {
		f := wire.NewFrames(theirs, theirs, theirs)
		m, _, err := f.Recv()
		for _, say := range []wire.Type{wire.Hello, wire.OK} {
			if err == nil {
				err = f.Send(&wire.Message{Type: say, Req: m.Req, Epoch: m.Epoch, Version: wire.Version})
			}
		}
		if err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, theirs)
	}()
	w, err := wardenexec.New(wardenexec.Options{
		Dir: filepath.Join(testdir.New(t), "warden"), Ephemeral: true, Untrusted: true, Info: sandboxInfo, Log: slog.New(slog.DiscardHandler),
		Connect: func(context.Context, bool) (wire.Conn, error) { return strictFrames(ours), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
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
		b := &box{boxRecord: boxRecord{ID: "a"}}
		isNew := len(boxes) < 2
		if err := e.refer(b, sandboxRecord{Name: "main", Boxes: boxes}, false, false); err == nil || b.dead != isNew {
			t.Errorf("%v: dead %v, %v", boxes, b.dead, err)
		}
	}
}
