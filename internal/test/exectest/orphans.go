package exectest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
)

var orphanCases = []Case{
	{Name: "orphans/listed", Doc: "Exit.Orphans has the PID of everything a command left running, however it left it, and nothing else.", Func: orphansListed},
	{Name: "orphans/daemon", Doc: "A daemon that closed its output is one of them.", Func: orphansDaemon},
	{Name: "orphans/none", Doc: "There are none of a command that left nothing, whatever others left.", Func: orphansNone},
	{Name: "orphans/reopened", Doc: "They are known in the next life, also of a command that ended between the two.", Func: orphansReopened, reopen: true},
}

// pids are the numbers in a text, sorted.
func (t *T) pids(text string) []int {
	t.Helper()
	var pids []int
	for _, f := range strings.Fields(text) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("%q is no list of PIDs", text)
		}
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

func (t *T) sameOrphans(what string, r result, want []int) {
	t.Helper()
	if !slices.Equal(r.exit.Orphans, want) {
		t.Errorf("%s: the orphans are %v, not %v", what, r.exit.Orphans, want)
	}
}

func orphansListed(t *T) {
	for _, tc := range []struct {
		text string
		code int
	}{
		{"sleep 15 & echo $!", 0},
		{"sleep 15 & echo $!; exit 3", 3},
		{"(sleep 15 & echo $!)", 0},
		{"sleep 15 & echo $!; (sleep 15 & echo $!); exit 0", 0},
		{"setsid sleep 15 & echo $!", 0},
		{"trap '' HUP; sleep 15 >/dev/null 2>&1 </dev/null & echo $!", 0},
		{"sh -c 'sleep 15 & echo $!; exit 1'", 1},
		{"env -i sh -c 'sleep 15 & echo $!; exit 2'", 2},
	} {
		r := t.run(t.sh("%s", tc.text))
		equal(t, tc.text+": the exit code", r.exit.Code, tc.code)
		t.sameOrphans(tc.text, r, t.pids(r.stdout))
		t.signalLeftovers(r)
	}
}

func orphansDaemon(t *T) {
	dir, mark := t.dir(), "m-"+corral.NewID()
	r := t.run(t.daemon(mark, dir, keepEnv, closeOutput, leave))
	t.sameOrphans("daemon", r, t.pids(t.ok(t.sh("cat %s/%s.pid", dir, mark))))
	t.signalLeftovers(r)
}

func orphansNone(t *T) {
	other := t.run(t.sh("setsid sleep 15 & sleep 15 & exit 0"))
	running := t.start(t.sh("sleep 15 & echo; sleep 15"))
	t.await(running, 0, "\n")
	for _, cmd := range []corral.Command{
		t.sh("true"), t.sh("sleep 0.01 & wait; (true); exit 4"), t.sh("kill -9 $$"), t.prog("exit", "0"),
		{Args: []string{"no-such-program"}},
		{Shell: "sleep 15 & sleep 15", Timeout: t.pause(corral.DrainLimit), Grace: -1}, // all of it is killed
	} {
		t.sameOrphans(brief(cmd), t.run(cmd), nil)
	}
	t.signalLeftovers(other)
	t.signalLeftovers(running)
}

func orphansReopened(t *T) {
	t.X = t.fresh()
	before := t.run(t.sh("sleep 15 & echo $!"))
	between := t.start(t.sh("sleep 15 & echo $!; sleep 0.05"))
	t.await(between, 0, "\n")
	r := t.finish(t.nextLife(before))
	t.sameOrphans("ended before", r, t.pids(before.stdout))
	t.signalLeftovers(r)
	q, err := t.X.Attach(t.Ctx, between.Info().ID)
	if err != nil {
		t.Fatalf("Attach in the next life: %v", err)
	}
	t.Cleanup(func() { t.dispose(q) })
	r = t.finish(q)
	t.sameOrphans("ended between", r, t.pids(r.stdout))
	t.signalLeftovers(r)
}
