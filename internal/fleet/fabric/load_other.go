//go:build !linux

package fabric

// measure reads nothing here: the processes that run have to do.
func measure(*Load) {}
