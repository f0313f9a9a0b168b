//go:build !linux

package secrets

import "github.com/corral-exec/corral"

// memoryDir fails: an engine of this machine that shares its memory is one of
// Linux.
func memoryDir(bool) (string, error) {
	return "", corral.Errorf(corral.ErrUnavailable, "leave sandbox.secrets out", "secrets can be given to sandboxes on Linux only")
}
