package engine

// Versions are those of an engine's parts, for a person who looks for a fault. Each
// may be empty.
type Versions struct {
	API          string // of its interface
	Runc         string // of the default OCI runtime, such as "1.1.5+ds1"
	RuncRevision string // of that one's source
}
