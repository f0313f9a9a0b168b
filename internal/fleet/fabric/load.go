package fabric

import "runtime"

// A Load is how busy a node says that it is, for the choice among nodes that
// would do. Like all of a [Hello] it is a claim: a node that lies gets more
// commands, or fewer, of those that it may be given anyway.
type Load struct {
	Running int `json:"running,omitempty"` // processes of commands
	CPUs    int `json:"cpus,omitempty"`    // at least 1
	Average int `json:"average,omitempty"` // load average of the last minute for each CPU, in thousandths; 0 where it is not known

	// For people. 0 where it is not known.
	Processes  int   `json:"processes,omitempty"`  // of the whole machine
	Memory     int64 `json:"memory,omitempty"`     // bytes that there are
	MemoryUsed int64 `json:"memoryUsed,omitempty"` // bytes that nothing else could get
	Disk       int64 `json:"disk,omitempty"`       // bytes of the root file system
	DiskUsed   int64 `json:"diskUsed,omitempty"`
}

// Bounds of what is believed.
const (
	maxRunning = 1 << 20
	maxCPUs    = 1 << 13
	maxAverage = 1 << 20
	maxBytes   = 1 << 60
)

func (l Load) bound() Load {
	return Load{
		Running: min(max(l.Running, 0), maxRunning),
		CPUs:    min(max(l.CPUs, 1), maxCPUs),
		Average: min(max(l.Average, 0), maxAverage),

		Processes: min(max(l.Processes, 0), maxRunning),
		Memory:    min(max(l.Memory, 0), maxBytes), MemoryUsed: min(max(l.MemoryUsed, 0), maxBytes),
		Disk: min(max(l.Disk, 0), maxBytes), DiskUsed: min(max(l.DiskUsed, 0), maxBytes),
	}
}

// With is how busy the machine is for each CPU, in thousandths, when it runs
// that many more processes than it said: what it does, by its load average,
// and what it was given lately, which that does not show yet. Processes that do
// nothing count as well, the same on each node.
func (l Load) With(more int) int {
	l = l.bound()
	return l.Average + 1000*(l.Running+more)/l.CPUs
}

// machineLoad is the load of this machine, where that many processes run.
func machineLoad(running int) Load {
	l := Load{Running: running, CPUs: runtime.NumCPU()}
	measure(&l)
	l.Average /= l.CPUs
	return l.bound()
}
