package exectest

import (
	"fmt"
	"time"

	"github.com/corral-exec/corral"
)

var drainCases = []Case{
	{Name: "drain/returns", Doc: "A descendant that holds the output open delays Wait by at most 200 ms.", Func: drainReturns},
	{Name: "drain/shell-background", Doc: "So does a background job of the shell.", Func: drainShellBackground},
	{Name: "drain/survives", Doc: "The descendant is neither killed nor blocked: it can write megabytes afterwards, and none is recorded.", Func: drainSurvives},
	{Name: "drain/complete", Doc: "What the command itself had written is complete, however full its pipe was at the exit.", Func: drainComplete},
	{Name: "drain/merged", Doc: "The same holds with MergeStderr.", Func: drainMerged},
}

// drainMost is how long Wait may take after the exit: corral.DrainLimit, and
// as much again for scheduling.
const drainMost = 200 * time.Millisecond

// returnsSoon waits for p, which has just printed its last line.
func (t *T) returnsSoon(p corral.Process) corral.Exit {
	t.Helper()
	from := time.Now()
	exit := t.wait(p)
	if took := time.Since(from); took > t.soon(drainMost) {
		t.Errorf("Wait took %v after the command's last line", took.Round(time.Millisecond))
	}
	st := t.stat(p)
	if !st.Ended {
		t.Error("the log has not ended when Wait has")
	}
	t.scan(p, st.Size, 1, func(corral.Chunk) bool { t.Error("output after the end"); return false })
	return exit
}

func drainReturns(t *T) {
	p := t.start(t.daemon("m-"+corral.NewID(), t.dir(), keepEnv, holdOutput, leave))
	t.await(p, 0, "ready\n")
	equal(t, "the exit code", t.returnsSoon(p).Code, 0)
	t.signalLeftovers(p)
}

// signalLeftovers ends what a command left behind, as far as the executor can;
// the rest ends by itself.
func (t *T) signalLeftovers(p corral.Process) {
	t.Helper()
	if err := p.Signal(t.Ctx, corral.SIGKILL); err != nil {
		t.Logf("leftovers of %s: %v", p.Info().ID, err)
	}
}

func drainShellBackground(t *T) {
	p := t.start(t.sh("sleep 15 & echo bye; exit 6"))
	t.await(p, 0, "bye\n")
	equal(t, "the exit code", t.returnsSoon(p).Code, 6)
	t.signalLeftovers(p)
}

func drainSurvives(t *T) { lingers(t, false) }
func drainMerged(t *T)   { lingers(t, true) }

func lingers(t *T, merge bool) {
	file := t.dir() + "/told"
	cmd := t.prog("linger", file, fmt.Sprint(1<<20), "600ms")
	cmd.MergeStderr = merge
	p := t.start(cmd)
	t.await(p, 0, "bye\n")
	t.returnsSoon(p)
	size := t.stat(p).Size
	t.eventually("the descendant has written", func() bool { return t.exists(file) })
	equal(t, "what the descendant says", t.ok(t.sh("cat %s", file)), "wrote all")
	equal(t, "the size of the log", t.stat(p).Size, size)
	equal(t, "the output", t.finish(p).all, "bye\n")
}

func drainComplete(t *T) {
	const n = 60_000 // fits a pipe: the command exits with all of it unread
	p := t.start(t.sh("sleep 15 & $PROG pattern %d 6; exit 0", n))
	t.wait(p)
	equal(t, "the number of bytes", samePattern(t, p, 0, 6), n)
	t.signalLeftovers(p)
}
