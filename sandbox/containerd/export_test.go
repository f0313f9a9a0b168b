//go:build linux

package containerd

import "context"

// Unfinished are what was begun to be stored, and is not complete.
func (e *Engine) Unfinished(ctx context.Context) ([]string, error) {
	list, err := e.c.ContentStore().ListStatuses(e.in(ctx))
	var refs []string
	for _, s := range list {
		refs = append(refs, s.Ref)
	}
	return refs, err
}
