package testdir

var (
	Acquire     = acquire
	Release     = release
	Remove      = remove
	Sweep       = sweep
	MakeLocked  = makeLocked
	Mentions    = mentions
	CgroupMount = cgroupMount
)

const (
	Prefix       = prefix
	WardenLock   = wardenLock
	Label        = label
	CgroupPrefix = cgroupPrefix
)
