package engine

import "context"

// A Checker is an Engine that says beforehand what of a container Create, or
// Start, would refuse.
type Checker interface {
	// Check returns what a Spec asks for and the engine does not have. It
	// looks at what a Lack can be of, and nothing is made. The error is that
	// the engine does not say.
	Check(ctx context.Context, s Spec) ([]Lack, error)
}

// A Lack is something that an engine does not have.
type Lack struct {
	Of  Part
	Err error // why, with a hint
}

// Part is of a Spec.
type Part string

const (
	PartNetwork Part = "network"
	PartRuntime Part = "runtime"
	PartCPUs    Part = "cpus"
)
