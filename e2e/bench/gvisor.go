//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral/sandbox"
)

// Places in gVisor.
const (
	gvisorFDs    = "gVisor, fds"
	gvisorFrames = "gVisor, frames"
	gvisorEngine = "gVisor, docker exec"
	gvisorInside = "gVisor, fork and exec inside"
)

// addGVisor adds sandboxes in gVisor, which are made when they are used: an engine need
// not have it for anything else.
func (s *site) addGVisor(ctx context.Context) {
	made := func(name, runtime string, driver sandbox.Driver) func() (*sandbox.Executor, error) {
		return sync.OnceValues(func() (*sandbox.Executor, error) {
			cfg := s.config(name, driver)
			cfg.Runtime = runtime
			ex, err := sandbox.New(cfg)
			if err != nil {
				return nil, err
			}
			s.closers = append(s.closers, ex)
			_, err = ours{ex: ex}.run(ctx, job{shell: "true"}) // makes the container
			return ex, err
		})
	}
	fds, frames := made("gvisor-fds", "runsc-uds", sandbox.DriverFDs), made("gvisor-frames", "runsc", sandbox.DriverFrames)
	in := func(get func() (*sandbox.Executor, error), run func(context.Context, *sandbox.Executor, job) (time.Duration, error)) func(context.Context, job) (time.Duration, error) {
		return func(ctx context.Context, j job) (time.Duration, error) {
			ex, err := get()
			if err != nil {
				return 0, err
			}
			return run(ctx, ex, j)
		}
	}
	direct := func(ctx context.Context, ex *sandbox.Executor, j job) (time.Duration, error) {
		return ours{ex: ex}.run(ctx, j)
	}
	s.add(place{name: gvisorFDs, run: in(fds, direct)})
	s.add(place{name: gvisorFrames, slowData: true, run: in(frames, direct)})
	s.add(place{name: gvisorInside, slowStart: true, run: in(fds, insideOf)})
	s.add(place{name: gvisorEngine, slowStart: true, slowData: true, run: in(fds, func(ctx context.Context, ex *sandbox.Executor, j job) (time.Duration, error) {
		status, err := ex.Status(ctx)
		if err != nil {
			return 0, err
		}
		return engineExec{s.api, status.Container.ID, boxUser}.run(ctx, j)
	})})
}

// insideOf is how long a shell in a sandbox takes to fork and execute a job: what more of
// them in one command take, so that starting that is not counted.
func insideOf(ctx context.Context, ex *sandbox.Executor, j job) (time.Duration, error) {
	const times = 20
	run := func(n int) (time.Duration, error) {
		text := fmt.Sprintf("for i in %s; do /bin/sh -lc '%s' || exit; done", strings.Repeat("x ", n), j.shell)
		return ours{ex: ex}.run(ctx, job{shell: text})
	}
	one, err := run(1)
	if err != nil {
		return 0, err
	}
	all, err := run(1 + times)
	return (all - one) / times, err
}
