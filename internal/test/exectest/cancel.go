package exectest

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
)

var cancelCases = []Case{
	{Name: "cancel/start-before", Doc: "Start with a context that has ended returns its error, and nothing runs.", Func: cancelStartBefore},
	{Name: "cancel/start-after", Doc: "The end of Start's context, after Start has returned, leaves the command alone.", Func: cancelStartAfter},
	{Name: "cancel/wait", Doc: "Cancelling Wait ends that call and not the command, which can be waited for again.", Func: cancelWait},
	{Name: "cancel/read", Doc: "Cancelling a blocked Read ends that call and not the command; no byte is lost.", Func: cancelRead},
	{Name: "cancel/write", Doc: "Cancelling a Write ends that call and not the command, which reads on.", Func: cancelWrite},
	{Name: "cancel/write-behind", Doc: "A Write behind another that waits ends with its own context, and has written nothing.", Func: cancelWriteBehind},
	{Name: "cancel/close-behind", Doc: "CloseStdin, behind a Write that waits, ends with its own context; called again it closes.", Func: cancelCloseBehind},
	{Name: "cancel/signal-behind", Doc: "Signal, beside a Write that waits, takes no longer than otherwise.", Func: cancelSignalBehind},
}

func cancelStartBefore(t *T) {
	ctx, cancel := context.WithCancel(t.Ctx)
	cancel()
	cmd := t.sh("sleep 5")
	cmd.ID = corral.NewID()
	p, err := t.X.Start(ctx, cmd)
	if err == nil {
		t.Cleanup(func() { t.dispose(p) })
	}
	t.isError("Start", err, context.Canceled)
	_, err = t.X.Attach(t.Ctx, cmd.ID)
	t.isError("Attach", err, corral.ErrNotFound)
}

func cancelStartAfter(t *T) {
	ctx, cancel := context.WithCancel(t.Ctx)
	defer cancel()
	p, err := t.X.Start(ctx, withStdin(t.sh("cat; echo done")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { t.dispose(p) })
	cancel()
	time.Sleep(t.pause(300 * time.Millisecond)) // for whoever takes it for an order to kill
	t.write(p, "alive\n")
	t.closeStdin(p)
	r := t.finish(p)
	if !r.exit.Success() || r.stdout != "alive\ndone\n" {
		t.Errorf("%v, output %q", r.exit, r.stdout)
	}
}

// cancelled calls f with a context that ends after a while; f must end with it.
func cancelled(t *T, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Ctx)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- f(ctx) }()
	select {
	case err := <-result:
		t.Fatalf("%s returned before it was cancelled: %v", what, err)
	case <-time.After(100 * time.Millisecond):
	}
	cancel()
	select {
	case err := <-result:
		t.isError(what, err, context.Canceled)
	case <-time.After(t.soon(time.Second)):
		t.Fatalf("%s goes on although it was cancelled", what)
	}
}

func cancelWait(t *T) {
	p := t.start(withStdin(t.sh("cat; exit 8")))
	cancelled(t, "Wait", func(ctx context.Context) error { _, err := p.Wait(ctx); return err })
	t.write(p, "alive\n")
	t.closeStdin(p)
	r := t.finish(p)
	equal(t, "the exit code", r.exit.Code, 8)
	equal(t, "the output", r.stdout, "alive\n")
}

func cancelRead(t *T) {
	p := t.start(withStdin(t.sh("cat")))
	cancelled(t, "Read", func(ctx context.Context) error {
		_, err := p.Log().Read(ctx, 0, make([]byte, 100))
		return err
	})
	t.write(p, "alive\n")
	t.closeStdin(p)
	equal(t, "the output", t.finish(p).stdout, "alive\n")
}

func cancelWrite(t *T) {
	dir := t.dir()
	p := t.start(withStdin(t.sh("while ! test -e %s/go; do sleep 0.05; done; cat >/dev/null; echo end", dir)))
	cancelled(t, "Write", func(ctx context.Context) error {
		_, err := p.Write(ctx, make([]byte, 32<<20))
		return err
	})
	t.ok(t.sh("touch %s/go", dir))
	t.write(p, "more")
	t.closeStdin(p)
	equal(t, "the output", t.finish(p).stdout, "end\n")
}

// behind starts a command that reads no input until release, and a Write that
// waits for that meanwhile.
func behind(t *T) (p corral.Process, release func()) {
	dir := t.dir()
	p = t.start(withStdin(t.sh("while ! test -e %s/go; do sleep 0.05; done; cat >/dev/null; echo end", dir)))
	ctx, cancel := context.WithCancel(t.Ctx)
	begun, over := make(chan struct{}), make(chan error, 1)
	input := make([]byte, 32<<20) // here: on a busy machine that takes longer than the pause
	go func() {
		close(begun)
		_, err := p.Write(ctx, input)
		over <- err
	}()
	t.Cleanup(cancel)
	<-begun
	select {
	case err := <-over:
		t.Fatalf("a Write that nobody reads returned: %v", err)
	case <-time.After(t.pause(100 * time.Millisecond)):
	}
	return p, func() {
		t.ok(t.sh("touch %s/go", dir))
		cancel()
		<-over
	}
}

// shortly calls f with a context that ends soon; so must f. Of what it returns nil
// is as good as the context's error.
func shortly(t *T, what string, f func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Ctx, 100*time.Millisecond)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- f(ctx) }()
	select {
	case err := <-result:
		if err != nil {
			t.isError(what, err, context.DeadlineExceeded)
		}
		return err
	case <-time.After(t.soon(time.Second)):
		t.Fatalf("%s goes on although its context has ended", what)
	}
	return nil
}

func cancelWriteBehind(t *T) {
	p, release := behind(t)
	err := shortly(t, "Write", func(ctx context.Context) error {
		n, err := p.Write(ctx, []byte("behind"))
		equal(t, "the number of bytes written", n, 0)
		return err
	})
	t.isError("Write", err, context.DeadlineExceeded)
	release()
	t.closeStdin(p)
	equal(t, "the output", t.finish(p).stdout, "end\n")
}

func cancelCloseBehind(t *T) {
	p, release := behind(t)
	_ = shortly(t, "CloseStdin", p.CloseStdin) // it may not have to wait
	release()
	t.closeStdin(p)
	equal(t, "the output", t.finish(p).stdout, "end\n")
}

func cancelSignalBehind(t *T) {
	p, _ := behind(t)
	if shortly(t, "Signal", func(ctx context.Context) error { return p.Signal(ctx, corral.SIGKILL) }) != nil {
		// To a place that is far away it may take longer than that.
		if err := p.Signal(t.Ctx, corral.SIGKILL); !errors.Is(err, corral.ErrEnded) && err != nil {
			t.Fatalf("Signal: %v", err)
		}
	}
	equal(t, "the signal", t.wait(p).Signal, corral.SIGKILL)
}
