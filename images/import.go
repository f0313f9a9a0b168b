package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/corral-exec/corral"
)

// A rootfs is a root file system that is ready to go to an engine.
type rootfs interface {
	Layers() []Layer
	Created() time.Time // how old its newest file is
	Close() error       // removes what it has on disk
}

// errAbandoned is what the writer of an archive sees when the engine has
// stopped reading it.
var errAbandoned = errors.New("the engine stopped reading")

// load streams an archive into the engine as the image name.
func (s Store) load(ctx context.Context, name string, a *Archive, report Progress) error {
	doing := "import image " + name
	pr, pw := io.Pipe()
	defer context.AfterFunc(ctx, func() { pw.CloseWithError(context.Cause(ctx)) })()
	m := &meter{w: pw, total: a.Size, report: report}
	written := make(chan error, 1)
	go func() {
		err := a.Write(ctx, m)
		pw.CloseWithError(err) // an error breaks the request off; nil ends it
		written <- err
	}()
	report(Event{Phase: PhaseImport, Message: "importing " + name})
	err := s.Engine.Load(ctx, pr)
	pr.CloseWithError(errAbandoned)
	werr := <-written

	abandoned := errors.Is(werr, errAbandoned) || errors.Is(werr, io.ErrClosedPipe) // the client closes what it stops sending
	switch {
	case werr != nil && !abandoned && ctx.Err() == nil:
		return fmt.Errorf("cannot %s: %w", doing, werr) // what the engine says is what came of it
	case err != nil:
		return engineError(ctx, doing, err)
	case m.done+trailer < m.total: // it may leave out to read the padding
		return corral.Errorf(corral.ErrUnavailable, "try again", "cannot %s: the engine took %d of %d bytes", doing, m.done, m.total)
	}
	return nil
}

// A meter reports what passes through it, once a megabyte and at the end.
type meter struct {
	w           io.Writer
	done, total int64
	told        int64
	report      Progress
}

func (m *meter) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	m.done += int64(n)
	if m.done-m.told >= 1<<20 || m.told < m.total && m.done >= m.total {
		m.told = m.done
		m.report(Event{Phase: PhaseImport, Current: min(m.done, m.total), Total: m.total})
	}
	return n, err
}
