package sandbox

import (
	"context"
	"errors"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/engine"
)

// Pause freezes all that runs in a sandbox, which need not be open. Until it is resumed
// its commands make no progress, and a call that needs it waits. ErrNotFound if none of its
// containers runs.
func Pause(ctx context.Context, e engine.Engine, stateDir, name string) error {
	return eachBox(ctx, e, stateDir, name, engine.PauseEngine.Pause)
}

// Resume has what runs in a sandbox go on.
func Resume(ctx context.Context, e engine.Engine, stateDir, name string) error {
	return eachBox(ctx, e, stateDir, name, engine.PauseEngine.Resume)
}

func eachBox(ctx context.Context, e engine.Engine, stateDir, name string, do func(engine.PauseEngine, context.Context, string) error) error {
	freezer, ok := e.(engine.PauseEngine)
	if !ok {
		return corral.Errorf(errors.ErrUnsupported, "use Docker or containerd", "this engine cannot pause the sandbox %s", name)
	}
	s, err := Find(stateDir, name)
	if err != nil {
		return err
	}
	found := false
	for _, b := range s.Boxes {
		err := do(freezer, ctx, b.Container)
		if errors.Is(err, engine.ErrNoContainer) {
			continue
		}
		if err != nil {
			return err
		}
		found = true
	}
	if !found {
		return corral.Errorf(corral.ErrNotFound, "its next command gets a container", "no container of the sandbox %s runs", name)
	}
	return nil
}
