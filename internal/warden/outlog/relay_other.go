//go:build !linux

package outlog

// relay exists on Linux only; elsewhere output comes in by Append.
type relay struct {
	r    *struct{}
	held int64
}

func (r *relay) close() {}
