package pathenv

import (
	"context"
	"errors"
	"os"
	"time"
)

// AccountHome is the profile directory of this process's user.
func AccountHome() (string, error) { return os.UserHomeDir() }

// runLoginShell is never reached: LoginProbe does not ask on Windows.
func runLoginShell(context.Context, string, []string, []string) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

// dependsOn and readOwn are never reached either.
func dependsOn(string, []string, time.Time) string { return "" }

func readOwn(string, int64) ([]byte, error) { return nil, errors.ErrUnsupported }
