package exectest

import (
	"sync"

	"github.com/corral-exec/corral"
)

var waitCases = []Case{
	{Name: "wait/many", Doc: "Any number of goroutines may wait; all get the same Exit.", Func: waitMany},
	{Name: "wait/twice", Doc: "Waiting again, from any handle, gives the same Exit.", Func: waitTwice},
	{Name: "wait/after-log", Doc: "When Wait returns, the log has ended and is complete.", Func: waitAfterLog},
}

func waitMany(t *T) {
	p := t.start(t.sh("sleep 0.2; exit 13"))
	exits := make([]corral.Exit, 50)
	var wg sync.WaitGroup
	for i := range exits {
		wg.Go(func() {
			var err error
			if exits[i], err = p.Wait(t.Ctx); err != nil {
				t.Errorf("Wait: %v", err)
			}
		})
	}
	wg.Wait()
	equal(t, "the exit code", exits[0].Code, 13)
	for _, e := range exits {
		equal(t, "another waiter's exit", e, exits[0])
	}
}

func waitTwice(t *T) {
	p := t.start(t.sh("exit 14"))
	first := t.wait(p)
	equal(t, "the exit code", first.Code, 14)
	equal(t, "the exit, asked again", t.wait(p), first)
	q, err := t.X.Attach(t.Ctx, p.Info().ID)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	equal(t, "the exit, asked of another handle", t.wait(q), first)
}

func waitAfterLog(t *T) {
	for range 20 {
		p := t.start(t.prog("pattern", "200000", "14"))
		t.wait(p)
		equal(t, "Stat right after Wait", t.stat(p), corral.LogStat{Size: 200_000, Ended: true})
	}
}
