package exectest

import (
	"fmt"
	"time"

	"github.com/corral-exec/corral"
)

var signalCases = []Case{
	{Name: "signal/deadly", Doc: "TERM, KILL, INT, HUP, USR1 and RTMIN+1 reach the command, by number and by name, and its Exit names them.", Func: signalDeadly},
	{Name: "signal/handled", Doc: "A command that handles signals gets each one and goes on.", Func: signalHandled},
	{Name: "signal/stop", Doc: "STOP halts the command and CONT lets it go on.", Func: signalStop},
	{Name: "signal/tree", Doc: "A signal reaches children and grandchildren as well as the command.", Func: signalTree},
	{Name: "signal/setsid", Doc: "A signal reaches descendants that left the session.", Func: signalSetsid},
	{Name: "signal/daemon", Doc: "KILL reaches a daemon that forked twice and cleared its environment.", Func: signalDaemon},
	{Name: "signal/leftovers", Doc: "After the command's own end a signal still reaches what it left behind.", Func: signalLeftoversCase},
	{Name: "signal/ended", Doc: "Signal answers ErrEnded when nothing is left.", Func: signalEnded},
	{Name: "signal/invalid", Doc: "A number that is no signal's is ErrInvalid.", Func: signalInvalid},
	{Name: "signal/tty", Doc: "Signals reach a command on a terminal.", Func: signalTTY},
	{Name: "signal/other-executors", Doc: "A signal to one command does not reach the commands of another executor on the same machine.", Func: signalOtherExecutors},
	{Name: "signal/others-alone", Doc: "A signal to one command does not reach another.", Func: signalOthersAlone},
}

func signalDeadly(t *T) {
	for _, name := range []string{"TERM", "KILL", "INT", "HUP", "USR1", "RTMIN+1", "15"} {
		s, err := corral.ParseSignal(name)
		if err != nil {
			t.Fatal(err)
		}
		p := t.start(corral.Command{Args: []string{"sleep", "20"}})
		t.signal(p, s)
		exit := t.wait(p)
		if exit.Code != -1 || exit.Signal != s || exit.Reason != corral.ReasonExited {
			t.Errorf("%s: %v, reason %q", name, exit, exit.Reason)
		}
	}
}

func signalHandled(t *T) {
	p := t.start(t.prog("signals"))
	off := t.await(p, 0, "ready\n")
	for _, s := range []corral.Signal{corral.SIGHUP, corral.SIGINT, corral.SIGTERM, corral.SIGUSR1, corral.SIGWINCH, 35} {
		t.signal(p, s)
		off = t.await(p, off, fmt.Sprintf("%d\n", s))
	}
	t.signal(p, corral.SIGUSR2)
	r := t.finish(p)
	equal(t, "the output", r.stdout, "ready\n1\n2\n15\n10\n28\n35\n12\n")
	equal(t, "the exit code", r.exit.Code, 0)
}

func signalStop(t *T) {
	p := t.start(t.sh("while :; do echo tick; sleep 0.02; done"))
	t.await(p, 0, "tick\n")
	t.signal(p, corral.SIGSTOP)
	size := int64(-1)
	t.eventually("the output stands still", func() bool {
		before := t.stat(p).Size
		time.Sleep(t.pause(100 * time.Millisecond))
		size = t.stat(p).Size
		return size == before
	})
	t.signal(p, corral.SIGCONT)
	t.await(p, size, "tick\n")
	t.signal(p, corral.SIGKILL)
	equal(t, "the signal", t.wait(p).Signal, corral.SIGKILL)
}

func signalTree(t *T) {
	mark := "m-" + corral.NewID()
	p := t.start(t.sh("trap : USR1; %[1]s & (trap : USR1; %[1]s & wait; wait) & wait; wait; wait", marked(mark)))
	off := t.await(p, 0, "ready\nready\n")
	t.signal(p, corral.SIGUSR1)
	t.await(p, off, "10\n10\n")
	t.signal(p, corral.SIGKILL)
	equal(t, "the signal", t.wait(p).Signal, corral.SIGKILL)
	t.eventually("the last descendant has ended", func() bool { return t.living(mark) == 0 })
}

func signalSetsid(t *T) {
	mark := "m-" + corral.NewID()
	p := t.start(t.sh("setsid %s & sleep 20", marked(mark)))
	t.await(p, 0, "ready\n")
	t.signal(p, corral.SIGKILL)
	t.wait(p)
	t.eventually("the descendant has ended", func() bool { return t.living(mark) == 0 })
}

func signalDaemon(t *T) {
	mark := "m-" + corral.NewID()
	p := t.start(t.daemon(mark, t.dir(), clearEnv, holdOutput, stay))
	t.await(p, 0, "ready\n")
	equal(t, "the number of processes", t.living(mark), 2)
	t.signal(p, corral.SIGKILL)
	t.wait(p)
	t.eventually("the daemon has ended", func() bool { return t.living(mark) == 0 })
}

func signalLeftoversCase(t *T) {
	mark := "m-" + corral.NewID()
	p := t.start(t.daemon(mark, t.dir(), keepEnv, holdOutput, leave))
	equal(t, "the exit code", t.wait(p).Code, 0)
	equal(t, "the number of daemons", t.living(mark), 1)
	t.signal(p, corral.SIGKILL)
	t.eventually("the daemon has ended", func() bool { return t.living(mark) == 0 })
	t.isError("Signal when nothing is left", p.Signal(t.Ctx, corral.SIGKILL), corral.ErrEnded)
}

func signalEnded(t *T) {
	p := t.start(t.sh("true"))
	t.wait(p)
	for _, s := range []corral.Signal{corral.SIGTERM, corral.SIGKILL} {
		t.isError("Signal after the end", p.Signal(t.Ctx, s), corral.ErrEnded)
	}
}

func signalInvalid(t *T) {
	p := t.start(t.prog("sleep"))
	for _, s := range []corral.Signal{-1, 0, 65, 1000} {
		t.isError(fmt.Sprintf("Signal(%d)", int(s)), p.Signal(t.Ctx, s), corral.ErrInvalid)
	}
}

func signalTTY(t *T) {
	p := t.start(onTTY(t.prog("signals")))
	off := t.await(p, 0, "ready\r\n")
	t.signal(p, corral.SIGTERM)
	t.await(p, off, "15\r\n")
	t.signal(p, corral.SIGKILL)
	equal(t, "the signal", t.wait(p).Signal, corral.SIGKILL)
}

// signalOtherExecutors is about signs by which descendants are found: numbers
// that each executor counts up by itself are the same in all of them.
func signalOtherExecutors(t *T) {
	one, two := t.on(t.fresh()), t.on(t.fresh())
	const n = 5
	var doomed, others []corral.Process
	for range n {
		doomed = append(doomed, one.start(t.sh("setsid sleep 20 & sleep 20")))
		others = append(others, two.start(withStdin(t.sh("setsid cat; echo end"))))
	}
	for _, p := range doomed {
		one.signal(p, corral.SIGKILL)
		one.wait(p)
	}
	for _, p := range others {
		two.write(p, "still here\n")
		two.closeStdin(p)
		equal(two, "the other's output", two.finish(p).stdout, "still here\nend\n")
	}
}

func signalOthersAlone(t *T) {
	other := t.start(withStdin(t.sh("setsid cat; echo end")))
	p := t.start(t.sh("setsid sleep 20 & sleep 20"))
	t.signal(p, corral.SIGKILL)
	t.wait(p)
	t.write(other, "still here\n")
	t.closeStdin(other)
	equal(t, "the other's output", t.finish(other).stdout, "still here\nend\n")
}
