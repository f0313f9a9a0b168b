package fabric

import "runtime"

// A Load is a node's claim how busy it is, for the choice among suitable nodes. A node
// that lies gets more or fewer of the commands that it may get anyway.
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

// Bounds of the accepted values.
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

// With estimates the load for each CPU, in thousandths, with that many more processes
// than reported. It adds the load average and the running processes, since the average
// does not show recent starts yet. Idle processes count as well, the same on each node.
func (l Load) With(more int) int {
	l = l.bound()
	return l.Average + 1000*(l.Running+more)/l.CPUs
}

// machineLoad returns the load of this machine with that many running processes.
func machineLoad(running int) Load {
	l := Load{Running: running, CPUs: runtime.NumCPU()}
	measure(&l)
	l.Average /= l.CPUs
	return l.bound()
}
