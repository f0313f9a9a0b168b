package sandbox

// Versions are what an engine says of its parts, for whoever looks for what is
// wrong with it. Each may be empty.
type Versions struct {
	API          string // of its interface
	Runc         string // of the default OCI runtime, such as "1.1.5+ds1"
	RuncRevision string // of that one's source
}
