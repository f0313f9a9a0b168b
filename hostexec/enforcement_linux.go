package hostexec

import (
	"fmt"

	"github.com/corral-exec/corral/internal/warden/landlock"
)

// Enforcement describes the parts of an execution domain that the kernel of this
// machine can enforce. The error says why it cannot enforce any.
func Enforcement() (string, error) {
	version, err := landlock.ABI()
	if err != nil {
		return "", err
	}
	if err := landlock.Watchable(); err != nil {
		return "", fmt.Errorf("version %d of Landlock is there, but what a loader is given is not kept from running: %w", version, err)
	}
	text := fmt.Sprintf("Landlock version %d", version)
	switch {
	case version < 2:
		text += "; files cannot be moved or linked between directories (Linux 5.19 can)"
	case version < 3:
		text += "; files can be truncated anywhere (not with Linux 6.2)"
	}
	return text, nil
}
