package pathenv

import (
	"context"
	"errors"
	"os"
)

// AccountHome is the profile directory of this process's user.
func AccountHome() (string, error) { return os.UserHomeDir() }

// runLoginShell is never reached: LoginProbe does not ask on Windows.
func runLoginShell(context.Context, string, []string, []string) ([]byte, error) {
	return nil, errors.ErrUnsupported
}
