package exectest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/corral-exec/corral"
)

// scope is a testing.TB whose clean-ups run when it ends instead of at the end
// of the test.
type scope struct {
	testing.TB
	mu       sync.Mutex
	cleanups []func()
}

func (s *scope) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

func (s *scope) end() {
	for {
		s.mu.Lock()
		n := len(s.cleanups)
		if n == 0 {
			s.mu.Unlock()
			return
		}
		f := s.cleanups[n-1]
		s.cleanups = s.cleanups[:n-1]
		s.mu.Unlock()
		f()
	}
}

// recorder is a testing.TB that keeps failures to itself.
type recorder struct {
	scope
	failures []string
}

func (r *recorder) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, text)
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

func (r *recorder) Fail()                             { r.note("failed") }
func (r *recorder) Error(args ...any)                 { r.note(fmt.Sprintln(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.note(fmt.Sprintf(format, args...)) }
func (r *recorder) FailNow()                          { r.Fail(); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }

// watch puts wrappers around an executor and its processes that notice
// errors.ErrUnsupported.
type watch struct{ met atomic.Bool }

func (w *watch) see(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		w.met.Store(true)
	}
	return err
}

func (w *watch) executor(x corral.Executor) corral.Executor { return watchedExecutor{x, w} }

func (w *watch) process(p corral.Process, err error) (corral.Process, error) {
	if w.see(err) != nil {
		return nil, err
	}
	return watchedProcess{p, w}, nil
}

type watchedExecutor struct {
	corral.Executor
	watch *watch
}

func (x watchedExecutor) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	return x.watch.process(x.Executor.Start(ctx, cmd))
}

func (x watchedExecutor) Attach(ctx context.Context, id string) (corral.Process, error) {
	return x.watch.process(x.Executor.Attach(ctx, id))
}

type watchedProcess struct {
	corral.Process
	watch *watch
}

func (p watchedProcess) Write(ctx context.Context, b []byte) (int, error) {
	n, err := p.Process.Write(ctx, b)
	return n, p.watch.see(err)
}

func (p watchedProcess) CloseStdin(ctx context.Context) error {
	return p.watch.see(p.Process.CloseStdin(ctx))
}

func (p watchedProcess) Signal(ctx context.Context, s corral.Signal) error {
	return p.watch.see(p.Process.Signal(ctx, s))
}

func (p watchedProcess) Resize(ctx context.Context, s corral.Size) error {
	return p.watch.see(p.Process.Resize(ctx, s))
}

func (p watchedProcess) Wait(ctx context.Context) (corral.Exit, error) {
	exit, err := p.Process.Wait(ctx)
	return exit, p.watch.see(err)
}

func (p watchedProcess) Remove(ctx context.Context) error {
	return p.watch.see(p.Process.Remove(ctx))
}
