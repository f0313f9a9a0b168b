package sandbox

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/corral-exec/corral"
)

// chooseExec makes this sandbox use the engine's exec API from now on.
func (e *Executor) chooseExec() (corral.Executor, error) {
	engine, ok := e.cfg.Engine.(ExecEngine)
	if !ok {
		return nil, corral.Errorf(errors.ErrUnsupported, "use the driver auto", "this engine has no exec API")
	}
	d, err := newExecDriver(execOptions{
		Engine: engine, Container: e.execContainer, Kill: e.cfg.Engine.Remove, Prepare: e.prepare,
		Dir: filepath.Join(e.stateDir, "exec"), Info: e.info(), User: e.cfg.User, Log: e.cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.exec == nil {
		e.driver, e.exec, e.execClose = DriverExec, d, d.Close
		return d, nil
	}
	return e.exec, d.Close() // another call was faster
}

// execContainer returns a container that runs, made if need be.
func (e *Executor) execContainer(ctx context.Context) (string, error) {
	unlock, err := e.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := e.sweepOnce(ctx); err != nil {
		return "", err
	}
	c, err := e.ensure(ctx, DriverExec, true)
	return c.ID, err
}
