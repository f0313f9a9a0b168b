package exectest

import (
	"fmt"
	"time"

	"github.com/corral-exec/corral"
)

var reopenCases = []Case{
	{Name: "reopen/running", Doc: "A running command outlives its executor: the next finds all output from before, between and after, and the exit code.", Func: reopenRunning, reopen: true},
	{Name: "reopen/ended-before", Doc: "A command that ended before is found with its output and its exit.", Func: reopenEndedBefore, reopen: true},
	{Name: "reopen/ended-between", Doc: "A command that ends while no executor lives is found with its exit.", Func: reopenEndedBetween, reopen: true},
	{Name: "reopen/stdin", Doc: "Standard input can be written to and closed in the next life.", Func: reopenStdin, reopen: true},
	{Name: "reopen/tty", Doc: "A terminal can be written to, read and resized in the next life.", Func: reopenTTY, reopen: true},
	{Name: "reopen/signal", Doc: "The whole tree can be signalled in the next life.", Func: reopenSignal, reopen: true},
	{Name: "reopen/timeout", Doc: "A Timeout goes on counting, from the command's start.", Func: reopenTimeout, reopen: true},
	{Name: "reopen/same-id", Doc: "Starting an ID of the earlier life runs nothing and returns that process; another command is ErrConflict.", Func: reopenSameID, reopen: true},
	{Name: "reopen/removed", Doc: "What was removed stays forgotten.", Func: reopenRemoved, reopen: true},
	{Name: "reopen/old-handle", Doc: "A handle of a process of the earlier life, once removed, does nothing to the process that has the ID now.", Func: reopenOldHandle, reopen: true},
	{Name: "reopen/gap", Doc: "A log's gap and the streams of its bytes are the same in the next life.", Func: reopenGap, reopen: true},
	{Name: "reopen/many-lives", Doc: "A command outlives any number of executors.", Func: reopenManyLives, reopen: true},
}

// nextLife ends the case's executor and finds p again in the next.
func (t *T) nextLife(p corral.Process) corral.Process {
	t.Helper()
	t.X = t.reopen(t.X)
	q, err := t.X.Attach(t.Ctx, p.Info().ID)
	if err != nil {
		t.Fatalf("Attach in the next life: %v", err)
	}
	t.Cleanup(func() { t.dispose(q) })
	t.same(p, q)
	return q
}

func reopenRunning(t *T) {
	t.X = t.fresh()
	const n = 2_000_000
	p := t.start(t.sh("$PROG pattern %d 15 20000 10ms; exit 21", n))
	t.eventually("there is some output", func() bool { return t.stat(p).Size > 100_000 })
	p = t.nextLife(p)
	equal(t, "the number of bytes", samePattern(t, p, 0, 15), n)
	equal(t, "the exit code", t.wait(p).Code, 21)
}

func reopenEndedBefore(t *T) {
	t.X = t.fresh()
	first := t.run(t.sh("echo output; echo error >&2; exit 22"))
	r := t.finish(t.nextLife(first))
	equal(t, "the exit code", r.exit.Code, 22)
	equal(t, "the output", r.stdout, "output\n")
	equal(t, "standard error", r.stderr, "error\n")
	if !r.exit.EndedAt.Equal(first.exit.EndedAt) {
		t.Errorf("EndedAt is %v, it was %v", r.exit.EndedAt, first.exit.EndedAt)
	}
}

func reopenEndedBetween(t *T) {
	t.X = t.fresh()
	p := t.start(t.sh("echo before; sleep 0.5; echo between; kill -USR1 $$"))
	t.await(p, 0, "before\n")
	r := t.finish(t.nextLife(p))
	equal(t, "the output", r.stdout, "before\nbetween\n")
	equal(t, "the signal", r.exit.Signal, corral.SIGUSR1)
}

func reopenStdin(t *T) {
	t.X = t.fresh()
	p := t.start(withStdin(t.sh("cat; exit 23")))
	t.write(p, "before\n")
	p = t.nextLife(p)
	t.write(p, "after\n")
	t.closeStdin(p)
	r := t.finish(p)
	equal(t, "the output", r.stdout, "before\nafter\n")
	equal(t, "the exit code", r.exit.Code, 23)
}

func reopenTTY(t *T) {
	t.X = t.fresh()
	p := t.start(onTTY(t.prog("winch")))
	t.await(p, 0, sizeLine(corral.DefaultSize))
	p = t.nextLife(p)
	off := t.await(p, 0, sizeLine(corral.DefaultSize))
	size := corral.Size{Rows: 11, Cols: 22}
	if err := p.Resize(t.Ctx, size); err != nil {
		t.Fatalf("Resize: %v", err)
	}
	t.await(p, off, sizeLine(size))
	t.closeStdin(p)
	equal(t, "the exit code", t.wait(p).Code, 0)
}

func reopenSignal(t *T) {
	t.X = t.fresh()
	mark := "m-" + corral.NewID()
	p := t.start(t.sh("setsid %s & sleep 20", marked(mark)))
	t.await(p, 0, "ready\n")
	p = t.nextLife(p)
	equal(t, "the number of descendants", t.living(mark), 1)
	t.signal(p, corral.SIGKILL)
	equal(t, "the signal", t.wait(p).Signal, corral.SIGKILL)
	t.eventually("the descendant has ended", func() bool { return t.living(mark) == 0 })
}

func reopenTimeout(t *T) {
	t.X = t.fresh()
	cmd := t.prog("sleep")
	cmd.Timeout = t.pause(time.Second)
	exit := t.wait(t.nextLife(t.start(cmd)))
	if exit.Reason != corral.ReasonTimeout {
		t.Fatalf("%v, reason %q, after %v of %v", exit, exit.Reason, exit.EndedAt.Sub(exit.StartedAt), cmd.Timeout)
	}
	if took := exit.EndedAt.Sub(exit.StartedAt); took < cmd.Timeout-20*time.Millisecond || took > cmd.Timeout+t.soon(time.Second) {
		t.Errorf("ended after %v, with a time-out of %v", took, cmd.Timeout)
	}
}

func reopenSameID(t *T) {
	t.X = t.fresh()
	file := t.dir() + "/runs"
	cmd := t.once(file)
	p := t.nextLife(t.start(cmd))
	if _, exempt := t.Target.Exempt["attach/digest"]; !exempt {
		equal(t, "the digest", p.Info().Digest, cmd.Digest())
	}
	t.same(p, t.start(cmd))
	other := cmd
	other.Shell = "echo other"
	_, err := t.X.Start(t.Ctx, other)
	t.isError("Start of another command", err, corral.ErrConflict)
	equal(t, "the exit code", t.wait(p).Code, 5)
	equal(t, "what the runs left", t.ok(t.sh("cat %s", file)), "ran\n")
}

func reopenRemoved(t *T) {
	t.X = t.fresh()
	p := t.run(t.sh("true"))
	t.remove(p)
	t.X = t.reopen(t.X)
	_, err := t.X.Attach(t.Ctx, p.Info().ID)
	t.isError("Attach to what was removed", err, corral.ErrNotFound)
}

func reopenGap(t *T) {
	t.X = t.fresh()
	const n = 2 << 20
	cmd := t.prog("both", fmt.Sprint(n))
	cmd.Log = corral.LogLimit{Head: 10_000, Tail: 20_000}
	p := t.start(cmd)
	t.wait(p)
	before := t.stat(p)
	p = t.nextLife(p)
	equal(t, "Stat", t.stat(p), before)
	gapped(t, p, cmd.Log, 2*n, func(c corral.Chunk) { onlyOf(t, c) })
}

func reopenManyLives(t *T) {
	t.X = t.fresh()
	p := t.start(withStdin(t.sh("cat; exit 24")))
	want := ""
	for i := range 5 {
		line := fmt.Sprintf("life %d\n", i)
		t.write(p, line)
		want += line
		p = t.nextLife(p)
		t.await(p, 0, line)
	}
	t.closeStdin(p)
	r := t.finish(p)
	equal(t, "the output", r.stdout, want)
	equal(t, "the exit code", r.exit.Code, 24)
}
