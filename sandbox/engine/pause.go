package engine

import "context"

// A PauseEngine is an Engine that can freeze what runs in a container.
type PauseEngine interface {
	// Pause freezes every process of a container, as it is; one that is frozen stays
	// so, and it goes on running to Inspect. ErrNoContainer if there is none that runs.
	Pause(ctx context.Context, id string) error
	// Resume has it go on; one that is not frozen goes on as well.
	Resume(ctx context.Context, id string) error
}
