package foreground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/corral-exec/corral"
)

// An Interruption is a signal that ended the program before a command could get it.
type Interruption struct{ Signal corral.Signal }

func (i Interruption) Error() string { return fmt.Sprintf("interrupted by %v", i.Signal) }

// Interrupted returns the Interruption if a signal caused err, else err.
func Interrupted(ctx context.Context, err error) error {
	var cause Interruption
	if err != nil && errors.As(context.Cause(ctx), &cause) && !errors.Is(err, corral.ErrLost) {
		return cause
	}
	return err
}

// UntilSignal calls do with a context that ends at the first signal.
func UntilSignal(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(c)
	defer context.AfterFunc(ctx, func() { signal.Stop(c) })() // the next signal ends the program
	go func() {
		select {
		case got := <-c:
			cancel(Interruption{number(got)})
		case <-ctx.Done():
		}
	}()
	return Interrupted(ctx, do(ctx))
}

// Ending are the signals that end a server in good order, except those that are ignored
// since its start.
func Ending() []os.Signal { return slices.DeleteFunc(slices.Clone(ending), signal.Ignored) }

// Serving is a context for a server, which ends in good order at the first signal. From
// then on signals have their usual effect again, so that the second ends the program at
// once. A server outlives the reader of its standard output and standard error.
func Serving(ctx context.Context) (context.Context, context.CancelFunc) {
	// Writes fail then, without a signal. One that is ignored would be so in commands, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, Ending()...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// onSignals passes this program's signals on until stop is called. resize may take its
// time, until its context ends; other signals do not wait for it.
func onSignals(resize func(context.Context), end func(corral.Signal)) (stop func()) {
	// Buffered, because the runtime drops signals that find no receiver.
	c := make(chan os.Signal, 16)
	for _, s := range forwarded {
		if !signal.Ignored(s) { // nohup and background jobs of scripts ignore signals
			signal.Notify(c, s)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	resized := make(chan struct{}, 1)
	var owned sync.WaitGroup
	owned.Go(func() {
		for {
			select {
			case <-resized:
				resize(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	owned.Go(func() {
		for {
			select {
			case got := <-c:
				switch n := number(got); n {
				case corral.SIGWINCH:
					select {
					case resized <- struct{}{}:
					default: // one is to come that reads the size of now
					}
				case corral.SIGPIPE: // the write that caused it fails, and that is handled there
				default:
					end(n)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		signal.Stop(c)
		cancel()
		owned.Wait()
	}
}

func number(s os.Signal) corral.Signal {
	if n, ok := s.(syscall.Signal); ok {
		return corral.Signal(n)
	}
	return corral.SIGINT
}
