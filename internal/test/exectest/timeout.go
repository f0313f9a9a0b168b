package exectest

import (
	"fmt"
	"strings"
	"time"

	"github.com/corral-exec/corral"
)

var timeoutCases = []Case{
	{Name: "timeout/kills", Doc: "A command that outlives its Timeout is ended by a signal, on time, with the reason timeout.", Func: timeoutKills},
	{Name: "timeout/fraction", Doc: "A Timeout of a fraction of a second is kept.", Func: timeoutFraction},
	{Name: "timeout/not-reached", Doc: "A command that ends before its Timeout is not touched by it.", Func: timeoutNotReached},
	{Name: "timeout/output", Doc: "What was written before the time-out is kept.", Func: timeoutOutput},
	{Name: "timeout/grace", Doc: "A command may handle SIGTERM within the Grace; its own exit code is kept, with the reason timeout.", Func: timeoutGrace},
	{Name: "timeout/ignores-term", Doc: "A command that ignores SIGTERM is killed when the Grace is over, not before.", Func: timeoutIgnoresTerm},
	{Name: "timeout/no-grace", Doc: "A negative Grace kills at once.", Func: timeoutNoGrace},
	{Name: "timeout/stopped", Doc: "A stopped command is ended as well.", Func: timeoutStopped},
	{Name: "timeout/tty", Doc: "A command on a terminal is ended as well.", Func: timeoutTTY},
	{Name: "timeout/children", Doc: "The time-out ends children, also of a pipeline and in the background.", Func: timeoutChildren},
	{Name: "timeout/setsid", Doc: "The time-out ends descendants that left the session with setsid.", Func: timeoutSetsid},
	{Name: "timeout/forking", Doc: "The time-out ends descendants that start new processes all the time.", Func: timeoutForking},
	{Name: "timeout/nohup", Doc: "The time-out ends descendants under nohup.", Func: timeoutNohup},
	{Name: "timeout/daemon", Doc: "The time-out ends a daemon that forked twice, has a new session and ignores SIGTERM (found by its environment or its output).", Func: timeoutDaemon},
	{Name: "timeout/daemon-clear-env", Doc: "The time-out ends such a daemon without an environment (found by its output, which it still holds).", Func: timeoutDaemonClearEnv},
	{Name: "timeout/daemon-closed-output", Doc: "The time-out ends such a daemon that closed its standard streams (found by its environment).", Func: timeoutDaemonClosedOutput},
	{Name: "timeout/daemon-detached", Doc: "The time-out ends such a daemon with neither environment nor streams (found by its ancestry).", Func: timeoutDaemonDetached},
	{Name: "timeout/alone", Doc: "The time-out of one command leaves other commands alone.", Func: timeoutAlone},
}

const (
	keepEnv, clearEnv       = "keep", "clear"
	holdOutput, closeOutput = "hold", "close"
	stay, leave             = "stay", "leave"
)

// daemon is a command that leaves a daemon with that mark behind and prints
// "ready".
func (t *T) daemon(mark, dir, env, output, then string) corral.Command {
	return t.prog("daemon", mark, dir+"/"+mark+".pid", env, output, then)
}

// expires runs cmd, which must be ended by its Timeout, on time.
func (t *T) expires(cmd corral.Command) result {
	t.Helper()
	if cmd.Timeout == 0 {
		cmd.Timeout = t.pause(400 * time.Millisecond)
	}
	if cmd.Grace == 0 {
		cmd.Grace = 200 * time.Millisecond
	}
	r := t.run(cmd)
	if r.exit.Reason != corral.ReasonTimeout {
		t.Fatalf("%s: %v, reason %q; the output is %s", brief(cmd), r.exit, r.exit.Reason, clip(r.all))
	}
	if (r.exit.Code == -1) != (r.exit.Signal != 0) {
		t.Errorf("code %d with signal %d", r.exit.Code, r.exit.Signal)
	}
	took := r.exit.EndedAt.Sub(r.exit.StartedAt)
	if most := cmd.Timeout + max(cmd.Grace, 0) + t.soon(time.Second); took < cmd.Timeout-20*time.Millisecond || took > most {
		t.Errorf("ended after %v, with a time-out of %v and a grace of %v", took, cmd.Timeout, cmd.Grace)
	}
	return r
}

func timeoutKills(t *T) {
	for _, cmd := range []corral.Command{t.sh("sleep 20; echo no"), t.prog("sleep")} {
		cmd.Grace = 10 * time.Second // a busy machine takes longer than the default to end it
		exit := t.expires(cmd).exit
		equal(t, "the signal", exit.Signal, corral.SIGTERM)
	}
}

func timeoutFraction(t *T) {
	cmd := t.prog("sleep")
	cmd.Timeout = 50 * time.Millisecond
	fastest := time.Hour
	for range 3 {
		exit := t.expires(cmd).exit
		fastest = min(fastest, exit.EndedAt.Sub(exit.StartedAt))
	}
	if fastest > 900*time.Millisecond {
		t.Errorf("ended after %v, with a time-out of %v", fastest, cmd.Timeout)
	}
}

func timeoutNotReached(t *T) {
	cmd := t.sh("sleep 0.1; exit 4")
	cmd.Timeout = patience
	exit := t.run(cmd).exit
	if exit.Code != 4 || exit.Reason != corral.ReasonExited {
		t.Errorf("%v, reason %q", exit, exit.Reason)
	}
}

func timeoutOutput(t *T) {
	r := t.expires(t.sh("echo before; sleep 20; echo after"))
	equal(t, "the output", r.stdout, "before\n")
}

func timeoutGrace(t *T) {
	cmd := t.sh("trap 'echo cleaning; exit 7' TERM; while :; do sleep 0.02; done")
	cmd.Grace = 10 * time.Second
	r := t.expires(cmd)
	if r.exit.Code != 7 || r.exit.Signal != 0 {
		t.Errorf("%v, not exit code 7", r.exit)
	}
	// The sleep may have been ended first, and the shell may say so.
	if !strings.Contains(r.stdout, "cleaning\n") {
		t.Errorf("no trace of the trap in %s", clip(r.all))
	}
}

func timeoutIgnoresTerm(t *T) {
	cmd := t.sh("trap 'echo asked' TERM; while :; do sleep 0.02; done")
	cmd.Timeout, cmd.Grace = t.pause(300*time.Millisecond), 400*time.Millisecond
	r := t.expires(cmd)
	exit := r.exit
	equal(t, "the signal", exit.Signal, corral.SIGKILL)
	if !strings.Contains(r.stdout, "asked\n") {
		t.Errorf("it got no SIGTERM; the output is %s", clip(r.all))
	}
	if took := exit.EndedAt.Sub(exit.StartedAt); took < cmd.Timeout+cmd.Grace-20*time.Millisecond {
		t.Errorf("killed after %v, within the grace", took)
	}
}

func timeoutNoGrace(t *T) {
	cmd := t.sh("trap 'exit 0' TERM; while :; do sleep 0.02; done")
	cmd.Grace = -1
	equal(t, "the signal", t.expires(cmd).exit.Signal, corral.SIGKILL)
}

func timeoutStopped(t *T) {
	t.expires(t.sh("kill -STOP $$; sleep 20"))
}

func timeoutTTY(t *T) {
	r := t.expires(onTTY(t.sh("echo before; sleep 20")))
	equal(t, "the output", r.stdout, "before\r\n")
}

// family starts a command that prints "ready" when its members, who have that
// mark, are up; all of them must be gone when its time is up.
func (t *T) family(members int, ready string, cmd corral.Command, mark string) {
	t.Helper()
	cmd.Timeout, cmd.Grace = t.pause(time.Second), 200*time.Millisecond
	p := t.start(cmd)
	t.await(p, 0, ready)
	if n := t.living(mark); n < members {
		t.Fatalf("%d of %d are alive before the time-out", n, members)
	}
	equal(t, "the reason", t.wait(p).Reason, corral.ReasonTimeout)
	t.eventually("the last descendant has ended", func() bool { return t.living(mark) == 0 })
}

// marked is shell text that runs the signals helper with a mark; it prints
// "ready" and then survives every signal but KILL and USR2.
func marked(mark string) string { return "$PROG signals " + mark }

func timeoutChildren(t *T) {
	mark := "m-" + corral.NewID()
	t.family(3, "ready\nready\nready\n", t.sh("%[1]s & (%[1]s | cat) & sh -c '%[1]s'; sleep 20", marked(mark)), mark)
}

func timeoutSetsid(t *T) {
	mark := "m-" + corral.NewID()
	t.family(2, "ready\nready\n", t.sh("setsid %[1]s & setsid sh -c '%[1]s & wait' & sleep 20", marked(mark)), mark)
}

func timeoutForking(t *T) {
	mark := "m-" + corral.NewID()
	loop := fmt.Sprintf("while :; do $PROG pattern 1 1 1 20ms %s >/dev/null; done", mark)
	cmd := t.sh("for i in 1 2 3; do setsid sh -c '%s' & done; sleep 20", loop)
	cmd.Timeout, cmd.Grace = t.pause(500*time.Millisecond), 100*time.Millisecond
	p := t.start(cmd)
	t.eventually("they are at it", func() bool { return t.living(mark) > 0 })
	equal(t, "the reason", t.wait(p).Reason, corral.ReasonTimeout)
	t.eventually("the last descendant has ended", func() bool {
		for range 5 { // between two processes there may be none for a moment
			if t.living(mark) > 0 {
				return false
			}
			time.Sleep(10 * time.Millisecond)
		}
		return true
	})
}

func timeoutNohup(t *T) {
	mark := "m-" + corral.NewID()
	t.family(1, "ready\n", t.sh("(trap '' HUP; exec %s) & sleep 20", marked(mark)) /* as nohup does */, mark)
}

func (t *T) daemonFamily(env, output string) {
	t.Helper()
	mark := "m-" + corral.NewID()
	t.family(2, "ready\n", t.daemon(mark, t.dir(), env, output, stay), mark)
}

func timeoutDaemon(t *T)             { t.daemonFamily(keepEnv, holdOutput) }
func timeoutDaemonClearEnv(t *T)     { t.daemonFamily(clearEnv, holdOutput) }
func timeoutDaemonClosedOutput(t *T) { t.daemonFamily(keepEnv, closeOutput) }
func timeoutDaemonDetached(t *T)     { t.daemonFamily(clearEnv, closeOutput) }

func timeoutAlone(t *T) {
	other := t.start(withStdin(t.sh("setsid cat; echo end")))
	t.expires(t.sh("setsid sleep 20 & sleep 20"))
	t.write(other, fmt.Sprintln("still here"))
	t.closeStdin(other)
	equal(t, "the other's output", t.finish(other).stdout, "still here\nend\n")
}
