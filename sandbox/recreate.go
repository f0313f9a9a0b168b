package sandbox

import "context"

// Recreate makes a new container, as configured, to which commands go from then
// on. Those that run go on in the container that they are in, which is removed
// after the last of them: left are the names of such containers. If none can be
// made, everything stays as it is.
func (e *Executor) Recreate(ctx context.Context) (container string, left []string, err error) {
	e.touch()
	b, err := e.ready(ctx, "", true)
	if err != nil {
		return "", nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	b.users-- // as leave does
	for _, other := range e.boxes {
		if other == b {
			continue
		}
		other.stale = true // also for when the new one has ended
		if !other.dead && (other.users > 0 || e.runs(other)) {
			left = append(left, other.Container)
		}
	}
	return b.Container, left, nil
}

// runs reports whether commands run in a box that this life knows of. e.mu is
// held.
func (e *Executor) runs(b *box) bool {
	if b.warden != nil {
		return b.warden.Running() > 0
	}
	return e.exec != nil && e.exec.Busy(b.Ref())
}
