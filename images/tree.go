package images

import (
	"context"
	"io"
	"time"
)

// A tree is files as a layer; none of them is younger than epoch.
type tree struct {
	entries []entry
	epoch   time.Time
}

// WriteTar implements Layer.
func (t tree) WriteTar(ctx context.Context, w io.Writer) error {
	return writeTar(ctx, w, t.entries, t.epoch)
}

// A memoryFS is a root file system of one layer that is in memory.
type memoryFS struct{ tree }

func (m memoryFS) Layers() []Layer    { return []Layer{m.tree} }
func (m memoryFS) Created() time.Time { return m.epoch }
func (memoryFS) Close() error         { return nil }
