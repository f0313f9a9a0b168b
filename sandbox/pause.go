package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/filelock"
	"github.com/corral-exec/corral/sandbox/engine"
)

// Pause freezes all that runs in a sandbox, which need not be open, until it is resumed: by
// Resume, or by the next command for it. ErrNotFound if none of its containers runs.
//
// That it is paused is noted before: what was frozen by a program that died is resumed all
// the same.
func Pause(ctx context.Context, e engine.Engine, stateDir, name string) error {
	s, unlock, err := lockPause(ctx, stateDir, name)
	if err != nil {
		return err
	}
	defer unlock()
	mark := pausedMark(stateDir, name)
	// After a power cut nothing is frozen: it need not last as long.
	if err := atomicfile.Write(mark, nil, atomicfile.Options{}); err != nil {
		return fmt.Errorf("cannot note that the sandbox %s is paused: %w", name, err)
	}
	if err = s.eachBox(ctx, e, freeze); err != nil {
		rerr := s.eachBox(context.WithoutCancel(ctx), e, engine.PauseEngine.Resume)
		if errors.Is(rerr, corral.ErrNotFound) || errors.Is(rerr, errors.ErrUnsupported) || errors.Is(rerr, errOther) { // nothing was frozen
			rerr = nil
		}
		if rerr == nil {
			rerr = os.Remove(mark)
		}
		err = errors.Join(err, rerr)
	}
	return err
}

// freezeLimit is for how long it is tried to freeze a container: on a busy machine runc may
// give up on it.
const freezeLimit = 3 * time.Second

func freeze(e engine.PauseEngine, ctx context.Context, id string) error {
	for end := time.Now().Add(freezeLimit); ; {
		err := e.Pause(ctx, id)
		if !errors.Is(err, corral.ErrUnavailable) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Resume has what runs in a sandbox go on; one that is not paused goes on as well.
// ErrNotFound if none of its containers runs.
func Resume(ctx context.Context, e engine.Engine, stateDir, name string) error {
	s, unlock, err := lockPause(ctx, stateDir, name)
	if err != nil {
		return err
	}
	defer unlock()
	err = s.eachBox(ctx, e, engine.PauseEngine.Resume)
	if err != nil && !errors.Is(err, corral.ErrNotFound) && !errors.Is(err, errOther) {
		return err
	}
	return errors.Join(err, ignoreMissing(os.Remove(pausedMark(stateDir, name))))
}

// Pause is that of the package, for a sandbox that is open.
func (e *Executor) Pause(ctx context.Context) error { return Pause(ctx, e.engine, e.stateDir, e.name) }

// Resume is that of the package, for a sandbox that is open.
func (e *Executor) Resume(ctx context.Context) error {
	return Resume(ctx, e.engine, e.stateDir, e.name)
}

// lockPause finds a sandbox, and keeps what it is noted as in step with what its containers
// are: another program may pause and resume it, too.
func lockPause(ctx context.Context, stateDir, name string) (s Sandbox, unlock func(), err error) {
	if s, err = Find(stateDir, name); err != nil {
		return s, nil, err
	}
	f, err := filelock.Open(ctx, filepath.Join(sandboxDir(stateDir, name), ".pause"))
	if err != nil {
		return s, nil, fmt.Errorf("the sandbox %s is being paused or resumed: %w", name, err)
	}
	return s, func() { _ = f.Close() }, nil
}

func pausedMark(stateDir, name string) string {
	return filepath.Join(sandboxDir(stateDir, name), pausedFile)
}

// isPaused reports whether a sandbox is noted as paused.
func isPaused(stateDir, name string) bool {
	_, err := os.Stat(pausedMark(stateDir, name))
	return err == nil
}

// wake resumes the sandbox for a command, or for what one of its processes is told, if it is
// paused.
func (e *Executor) wake(ctx context.Context) error {
	if !isPaused(e.stateDir, e.name) {
		return nil
	}
	e.log.Info("a sandbox that was paused is resumed for a command", "name", e.name)
	if err := ignoreOther(e.Resume(ctx)); err != nil && !errors.Is(err, corral.ErrNotFound) {
		return fmt.Errorf("the sandbox %s is paused, and cannot be resumed: %w", e.name, err)
	}
	return nil
}

// errFrozen: a container is frozen that is not noted as paused. Somebody did that with the
// engine's own tools, to look at it or to copy it, and no command ends it.
var errFrozen = corral.Errorf(corral.ErrUnavailable, "", "it is paused")

func (b *box) frozen() error {
	return corral.Errorf(errFrozen, "when that may end: corral sandbox resume "+b.Sandbox, "the container %s was paused at its engine, %s, and no command runs in it", b.Container, b.EngineName())
}

// thaw is wardenexec.Options.Frozen: a command waits for an answer. If the sandbox was paused
// just after it was sent, it is resumed.
func (e *Executor) thaw(ctx context.Context, b *box) error {
	if isPaused(e.stateDir, e.name) {
		return e.wake(ctx)
	}
	if c, err := b.Inspect(ctx, e.engine); err == nil && c.Paused {
		return b.frozen()
	}
	return nil // it is slow; what else is wrong with it is seen otherwise
}

func (s Sandbox) eachBox(ctx context.Context, e engine.Engine, do func(engine.PauseEngine, context.Context, string) error) error {
	freezer, ok := e.(engine.PauseEngine)
	if !ok {
		return corral.Errorf(errors.ErrUnsupported, "use Docker or containerd", "this engine cannot pause the sandbox %s", s.Name)
	}
	found, other := false, error(nil)
	for _, b := range s.Boxes {
		err := do(freezer, ctx, b.Ref())
		if errors.Is(err, engine.ErrNoContainer) {
			other = errors.Join(other, b.checkEngine(ctx, e))
			continue
		}
		if err != nil {
			return err
		}
		found = true
	}
	if !found && other == nil {
		return corral.Errorf(corral.ErrNotFound, "its next command gets a container", "no container of the sandbox %s runs", s.Name)
	}
	return other
}
