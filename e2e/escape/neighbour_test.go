//go:build e2e && linux

package escape_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
)

// What a bomb costs its neighbour is measured in rounds. In each, the neighbour's
// commands are timed several times: in quiet, beside each honest load, and beside
// the bomb, each for a slice; whoever has not its turn is frozen. What else the
// machine does meanwhile, and where its containers stand with the scheduler, is the
// same in all of them. A load has the limits of the bomb, and does what agents do
// within them: one computes, another runs commands. What the neighbour takes longer
// beside the dearer of them is what processors cost that are shared, and what it
// takes longer beside the bomb than that is what the bomb costs.
//
// A figure is the median over the rounds of the ratio of the means of a round: on a
// machine that has other work a command either runs at once or waits for its turn,
// which makes a median of commands jump between the two.

// slice is for how long the neighbour's commands are timed, and rounds how often.
const slice = 100 * time.Millisecond

// period is how often the kernel gives a sandbox its share of the processors
// (cpu.cfs_period_us).
const period = 100 * time.Millisecond

var rounds = form(3, 30)

// A burden is what a neighbour has to bear.
type burden struct {
	quiet, loaded, bombed time.Duration // what its commands take
	toQuiet, toLoad       float64       // beside the bomb, times that in quiet, and beside the dearer load
	loadToQuiet           float64
	attacker, gateway     float64 // processors that the bomb's container took, and this program for it
}

func (b burden) String() string {
	return fmt.Sprintf("the neighbour's commands take %v in quiet, %v beside a load and %v beside the bomb (%.2f times that in quiet, %.2f times that beside the load); %.2f processors for the sandbox, %.2f for the gateway",
		b.quiet, b.loaded, b.bombed, b.toQuiet, b.toLoad, b.attacker, b.gateway)
}

// loads are what honest sandboxes do, each on all the processors that it may use.
var loads = []struct{ name, loop string }{
	{"computes", "while :; do :; done & "},
	{"commands", "while :; do /bin/true; done & "},
}

// startLoad has the sandbox go on with a load, and freezes it.
func startLoad(t *testing.T, x *sandbox.Executor, loop string) cgroup {
	t.Helper()
	_, err := x.Start(t.Context(), corral.Command{Shell: strings.Repeat(loop, runtime.NumCPU()) + "wait"})
	must(t, err)
	c := containerOf(t, x)
	c.freeze(t)
	t.Cleanup(func() { c.thaw(t) }) // else it cannot be killed
	return c
}

func containerOf(t *testing.T, x *sandbox.Executor) cgroup {
	t.Helper()
	st, err := x.Status(t.Context())
	must(t, err)
	return cgroupOf(t, st.Container.PID)
}

// bear measures. The bomb goes on afterwards.
func (f field) bear(ctx context.Context, bomb cgroup) burden {
	f.t.Helper()
	var quiet, loaded, bombed []time.Duration
	var toQuiet, toLoad, loadToQuiet []float64
	var wall, attacker, gateway time.Duration
	idle := time.Duration(0) // the gateway's processor time beside a load
	for range rounds {
		bomb.freeze(f.t)
		q := f.commands(ctx)
		l := time.Duration(0)
		for _, load := range f.loads {
			load.thaw(f.t)
			before := own()
			took := f.commands(ctx)
			idle += (own() - before) / time.Duration(len(f.loads))
			load.freeze(f.t)
			l = max(l, took)
		}
		took, there := bomb.taken(f.t)
		bomb.thaw(f.t)
		start, before := time.Now(), own()
		b := f.commands(ctx)
		if now, still := bomb.taken(f.t); there && still {
			attacker += now - took
		}
		wall += time.Since(start)
		gateway += own() - before
		quiet, loaded, bombed = append(quiet, q), append(loaded, l), append(bombed, b)
		toQuiet, toLoad = append(toQuiet, ratio(b, q)), append(toLoad, ratio(b, l))
		loadToQuiet = append(loadToQuiet, ratio(l, q))
	}
	return burden{
		quiet: median(quiet), loaded: median(loaded), bombed: median(bombed),
		toQuiet: median(toQuiet), toLoad: median(toLoad), loadToQuiet: median(loadToQuiet),
		attacker: ratio(attacker, wall), gateway: ratio(max(0, gateway-idle), wall),
	}
}

// commands is what commands of the neighbour take, on average over a slice; without
// the first, in which what happened before still shows.
func (f field) commands(ctx context.Context) time.Duration {
	f.t.Helper()
	n, start := -1, time.Now()
	for begun := start; n < 3 || time.Since(begun) < slice; n++ {
		if n == 0 {
			start = time.Now()
		}
		res, err := runner.Run(ctx, f.neighbour, corral.Command{Args: []string{"/bin/true"}}, runner.Options{})
		if err != nil || !res.Exit.Success() {
			f.t.Fatalf("the neighbour: %v, %v", res.Exit, err)
		}
	}
	return time.Since(start) / time.Duration(n)
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func median[T time.Duration | float64](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}

// own is the processor time that this process, which is the gateway, took.
func own() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// press makes the warden work while its sandbox has no process to spare: it must
// go on, whatever it is asked for. What it is asked for may be refused.
func (f field) press(ctx context.Context, p corral.Process) {
	f.t.Helper()
	const calls = 50
	failed := make(chan error, 2*calls)
	for range calls {
		go func() { failed <- p.Signal(ctx, corral.SIGCONT) }()
		go func() {
			_, err := runner.Run(ctx, f.attacker, corral.Command{Args: []string{"/bin/true"}}, runner.Options{})
			failed <- err
		}()
	}
	for range 2 * calls {
		if err := <-failed; err != nil && !errors.Is(err, corral.ErrUnavailable) && !errors.Is(err, corral.ErrEnded) {
			f.t.Errorf("while the sandbox has no process to spare: %v", err)
		}
	}
}
