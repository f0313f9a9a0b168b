package engine

import (
	"context"
	"time"
)

// A StatsEngine is an Engine that can say what a container uses.
type StatsEngine interface {
	// Stats is what a container that runs uses. ErrNoContainer if there is
	// none; of one that has ended it is all zero.
	Stats(ctx context.Context, id string) (Stats, error)
}

// Stats is what a container uses at one moment, and may use.
type Stats struct {
	At time.Time `json:"at"`

	Memory      int64 `json:"memory"`      // bytes, without what the kernel could give up at once
	MemoryLimit int64 `json:"memoryLimit"` // bytes; 0: unlimited
	// CPU is the processor time used since it was started: between two
	// moments, its growth by the time that passed is how many processors
	// were used.
	CPU       time.Duration `json:"cpuNanoseconds"`
	CPULimit  float64       `json:"cpuLimit"` // processors; 0: unlimited
	Pids      int64         `json:"pids"`
	PidsLimit int64         `json:"pidsLimit"` // 0: unlimited
	// OOMKills is how many processes were killed for want of memory; -1 if
	// that cannot be told.
	OOMKills int64 `json:"oomKills"`
}
