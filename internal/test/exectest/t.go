package exectest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

// T is what a case gets: the test, the target and an executor of it, with
// shorthands that fail the case when the executor fails.
type T struct {
	testing.TB
	Target Target
	X      corral.Executor

	// Ctx ends when the case has taken far too long.
	Ctx context.Context

	watch *watch // not nil while errors.ErrUnsupported is looked for
}

// patience bounds a case, and so does mostPatience, however slow the target. A
// case that hangs fails with its own message, long before go test gives up on
// everything, and before the helper program ends by itself.
const (
	patience     = 30 * time.Second
	mostPatience = 55 * time.Second
)

func newT(tb testing.TB, tg Target, x corral.Executor) *T {
	if tg.patience == 0 {
		tg.patience = min(patience*tg.slack(), mostPatience)
	}
	ctx, cancel := context.WithTimeout(context.Background(), tg.patience)
	tb.Cleanup(cancel)
	return &T{TB: tb, Target: tg, X: x, Ctx: ctx}
}

// fresh makes an executor of the case's own.
func (t *T) fresh() corral.Executor {
	x := t.Target.New(t)
	if t.watch != nil {
		return t.watch.executor(x)
	}
	return x
}

// reopen ends the life of x and begins the next.
func (t *T) reopen(x corral.Executor) corral.Executor {
	if t.watch == nil {
		return t.Target.Reopen(t, x)
	}
	return t.watch.executor(t.Target.Reopen(t, x.(watchedExecutor).Executor))
}

// on is t with another executor.
func (t *T) on(x corral.Executor) *T {
	u := *t
	u.X = x
	return &u
}

// soon is a time limit for what takes no time by itself.
func (t *T) soon(d time.Duration) time.Duration { return d * t.Target.slack() }

// pause is a time that a case sits through: long enough for a slow target to
// get something done, but, unlike a limit, paid by every run.
func (t *T) pause(d time.Duration) time.Duration { return d * min(t.Target.slack(), 4) }

// scaled is n, less on a slow target and under the race detector.
func (t *T) scaled(n int) int {
	if Race {
		n /= 4
	}
	return n / max(t.Target.Slow, 1)
}

// prog is a command that runs the helper program without a shell.
func (t *T) prog(args ...string) corral.Command {
	return corral.Command{Args: append([]string{t.Target.TestProg}, args...)}
}

// sh is a command of the host's shell. $PROG is the helper program.
func (t *T) sh(format string, args ...any) corral.Command {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	return corral.Command{Shell: strings.ReplaceAll(text, "$PROG", t.Target.TestProg)}
}

// start starts cmd; whatever becomes of the case, it is killed and forgotten.
func (t *T) start(cmd corral.Command) corral.Process {
	t.Helper()
	p, err := t.X.Start(t.Ctx, cmd)
	if err != nil {
		t.Fatalf("Start(%s): %v", brief(cmd), err)
	}
	t.Cleanup(func() { t.dispose(p) })
	return p
}

func (t *T) dispose(p corral.Process) {
	ctx, cancel := context.WithTimeout(context.Background(), t.Target.patience)
	defer cancel()
	if err := p.Remove(ctx); !errors.Is(err, corral.ErrRunning) {
		return // forgotten, or the executor is closed
	}
	if err := p.Signal(ctx, corral.SIGKILL); err != nil && !errors.Is(err, corral.ErrEnded) {
		return // closed meanwhile, or it cannot be signalled: it ends by itself
	}
	if _, err := p.Wait(ctx); err != nil {
		t.Errorf("killed %s in vain: Wait: %v", p.Info().ID, err)
	}
	if err := p.Remove(ctx); err != nil {
		t.Errorf("Remove: %v", err)
	}
}

// brief is cmd on one short line.
func brief(cmd corral.Command) string {
	s := fmt.Sprintf("%q", cmd.Shell)
	if len(cmd.Args) > 0 {
		s = fmt.Sprintf("%.120q", cmd.Args)
	}
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return s
}

func (t *T) wait(p corral.Process) corral.Exit {
	t.Helper()
	exit, err := p.Wait(t.Ctx)
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return exit
}

func (t *T) write(p corral.Process, text string) {
	t.Helper()
	if n, err := p.Write(t.Ctx, []byte(text)); err != nil || n != len(text) {
		t.Fatalf("Write of %d bytes: %d, %v", len(text), n, err)
	}
}

func (t *T) closeStdin(p corral.Process) {
	t.Helper()
	if err := p.CloseStdin(t.Ctx); err != nil {
		t.Fatalf("CloseStdin: %v", err)
	}
}

func (t *T) signal(p corral.Process, s corral.Signal) {
	t.Helper()
	if err := p.Signal(t.Ctx, s); err != nil {
		t.Fatalf("Signal(%v): %v", s, err)
	}
}

func (t *T) stat(p corral.Process) corral.LogStat {
	t.Helper()
	st, err := p.Log().Stat(t.Ctx)
	if err != nil {
		t.Fatalf("Stat: %v", err)
	}
	return st
}

// isError fails the case unless err is of that kind.
func (t *T) isError(what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%s: error %v, not %q", what, err, kind)
	}
}

// equal fails the case unless got is want.
func equal[V any](t *T, what string, got, want V) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	if g, ok := any(got).(string); ok {
		t.Fatalf("%s is\n%s, not\n%s", what, clip(g), clip(any(want).(string)))
	}
	t.Fatalf("%s is %v, not %v", what, got, want)
}

// eventually polls until ok.
func (t *T) eventually(what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(t.soon(8 * time.Second))
	// Before the context makes a command of ok fail with a message that
	// says less.
	if last, ok := t.Ctx.Deadline(); ok && last.Add(-t.Target.patience/10).Before(end) {
		end = last.Add(-t.Target.patience / 10)
	}
	for pause := 5 * time.Millisecond; !ok(); pause = min(2*pause, 100*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(pause)
	}
}

// dir makes a directory of the case's own in the workspace.
func (t *T) dir() string {
	t.Helper()
	dir := t.Target.Workspace + "/t-" + corral.NewID()
	t.ok(t.sh("mkdir '%s'", dir))
	x := t.X
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), t.Target.patience)
		defer cancel()
		p, err := x.Start(ctx, t.sh("chmod -R u+rwx '%s'; rm -rf '%s'", dir, dir))
		if err != nil {
			return // closed meanwhile; the workspace is the target's to remove
		}
		if _, err := p.Wait(ctx); err != nil {
			t.Errorf("removing %s: %v", dir, err)
		}
		t.dispose(p)
	})
	return dir
}

// exists reports whether commands see that file.
func (t *T) exists(path string) bool {
	t.Helper()
	r := t.run(t.sh("test -e '%s'", path))
	return r.exit.Code == 0
}

// living counts the helper programs that have mark among their arguments.
func (t *T) living(mark string) int {
	t.Helper()
	out := t.ok(t.prog("find", mark))
	n, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatalf("find: %v", err)
	}
	return n
}
