package exectest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/corral-exec/corral"
)

var leakCases = []Case{
	{Name: "leak/descriptors", Doc: "Ended commands keep no file descriptor of this process open, removed or not.", Func: leakDescriptors, serial: true},
	{Name: "leak/goroutines", Doc: "Ended commands keep no goroutine, removed or not.", Func: leakGoroutines, serial: true},
	{Name: "leak/processes", Doc: "Commands leave no process and no zombie, however they ended.", Func: leakProcesses, serial: true},
	{Name: "leak/close", Doc: "Closing an executor gives back every goroutine and file descriptor.", Func: leakClose, serial: true},
}

// someOfEach runs commands of every kind to their end.
func someOfEach(t *T, keep bool) {
	t.Helper()
	var wg sync.WaitGroup
	for _, cmd := range []corral.Command{
		t.sh("echo output; echo error >&2"),
		t.sh("exit 3"),
		withStdin(t.sh("cat")),
		onTTY(t.sh("echo output")),
		{Args: []string{"no-such-program"}},
		t.sh("kill -9 $$"),
		t.prog("pattern", "300000", "1"),
	} {
		p, err := t.X.Start(t.Ctx, cmd)
		if err != nil {
			t.Fatalf("Start(%s): %v", brief(cmd), err)
		}
		wg.Go(func() {
			if cmd.Stdin {
				if err := p.CloseStdin(t.Ctx); err != nil {
					t.Errorf("CloseStdin: %v", err)
				}
			}
			if _, err := p.Wait(t.Ctx); err != nil {
				t.Errorf("Wait: %v", err)
			}
			if _, err := p.Log().Read(t.Ctx, 0, make([]byte, 100)); err != nil && !errors.Is(err, io.EOF) {
				t.Errorf("Read: %v", err)
			}
			if keep {
				return
			}
			if err := p.Remove(t.Ctx); err != nil {
				t.Errorf("Remove: %v", err)
			}
		})
	}
	wg.Wait()
}

func openDescriptors(t *T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func goroutines(*T) int { return runtime.NumGoroutine() }

// settles fails the case unless count comes down to most.
func settles(t *T, what string, count func(*T) int, most int) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%d %s, at most %d expected", count(t), what, most)
		}
	}()
	t.eventually(fmt.Sprintf("there are at most %d %s", most, what), func() bool {
		runtime.GC() // what only a finalizer closes is not this suite's business
		return count(t) <= most
	})
}

// steady runs commands until caches and pools are filled and then demands
// that running more of them adds nothing.
func steady(t *T, what string, count func(*T) int) {
	t.Helper()
	t = t.on(t.fresh())
	for _, keep := range []bool{false, true} {
		for range 2 {
			someOfEach(t, keep)
		}
		settle := count(t)
		for range max(t.scaled(6), 2) {
			someOfEach(t, keep)
		}
		settles(t, what, count, settle+1)
	}
}

func leakDescriptors(t *T) { steady(t, "descriptors", openDescriptors) }
func leakGoroutines(t *T)  { steady(t, "goroutines", goroutines) }

func leakProcesses(t *T) {
	t = t.on(t.fresh())
	mark := "m-" + corral.NewID()
	alive, zombies := 0, 0
	someOfEach(t, false)
	if t.Target.CountProcs != nil {
		alive, zombies = t.Target.CountProcs(t)
	}
	for range 3 {
		someOfEach(t, false)
		cmd := t.sh("setsid %[1]s & setsid %[1]s & sleep 20", marked(mark))
		cmd.Timeout, cmd.Grace = t.pause(300*time.Millisecond), -1
		equal(t, "the reason", t.run(cmd).exit.Reason, corral.ReasonTimeout)
		// Orphans that end by themselves have to be reaped.
		t.ok(t.sh("(setsid sh -c 'sleep 0.05' & setsid true &) & exit 0"))
	}
	t.eventually("the last descendant has ended", func() bool { return t.living(mark) == 0 })
	if t.Target.CountProcs == nil {
		return
	}
	t.eventually("no process and no zombie is left", func() bool {
		a, z := t.Target.CountProcs(t)
		return a <= alive && z <= zombies
	})
}

func leakClose(t *T) {
	life := func() {
		s := &scope{TB: t.TB}
		u := *t
		u.TB = s
		u.X = u.fresh()
		someOfEach(&u, true)
		someOfEach(&u, false)
		s.end()
	}
	life() // fills what belongs to the process
	fds, gos := openDescriptors(t), goroutines(t)
	for range 3 {
		life()
	}
	settles(t, "descriptors", openDescriptors, fds)
	settles(t, "goroutines", goroutines, gos)
}
