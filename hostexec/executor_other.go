//go:build !linux

package hostexec

import (
	"context"
	"errors"
	"runtime"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
)

// An Executor runs commands on this machine. This system is not supported.
type Executor struct{}

var errUnsupported = corral.Errorf(errors.ErrUnsupported, "run commands in a sandbox, or on a node that runs Linux",
	"commands on the gateway need Linux; this is %s", runtime.GOOS)

// New returns an error that wraps errors.ErrUnsupported.
func New(cfg Config) (*Executor, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return nil, errUnsupported
}

// KilledWithCommands is false.
func KilledWithCommands(string) bool { return false }

// Start fails as New does.
func (*Executor) Start(context.Context, corral.Command) (corral.Process, error) {
	return nil, errUnsupported
}

// Plan fails as New does.
func (*Executor) Plan(context.Context, corral.Command) (pathenv.Plan, error) {
	return pathenv.Plan{}, errUnsupported
}

// Attach fails as New does.
func (*Executor) Attach(context.Context, string) (corral.Process, error) { return nil, errUnsupported }

// Close does nothing.
func (*Executor) Close() error { return nil }
