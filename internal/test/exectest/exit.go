package exectest

import (
	"fmt"
	"strings"
	"time"

	"github.com/corral-exec/corral"
)

var exitCases = []Case{
	{Name: "exit/code", Doc: "Every exit code arrives as the command gave it, from shell text and from an argument list.", Func: exitCode},
	{Name: "exit/signal", Doc: "A command ended by a signal has that signal and the code -1.", Func: exitSignal},
	{Name: "exit/shell-survives", Doc: "When the shell outlives a child that a signal ended, its own 128+n is the exit code and there is no signal.", Func: exitShellSurvives},
	{Name: "exit/not-found", Doc: "A program that does not exist exits with 127, and the log says what was not found.", Func: exitNotFound},
	{Name: "exit/not-executable", Doc: "A file that may not be executed, and a directory, exit with 126, and the log says why.", Func: exitNotExecutable},
	{Name: "exit/argument-too-long", Doc: "An argument list that the system refuses exits with 126, and the log says why.", Func: exitArgumentTooLong},
	{Name: "exit/times", Doc: "StartedAt and EndedAt lie around the command's run and are as far apart as it took.", Func: exitTimes},
}

func exitCode(t *T) {
	for _, code := range []int{0, 1, 2, 42, 125, 126, 127, 128, 130, 137, 255} {
		for _, cmd := range []corral.Command{t.sh("exit %d", code), t.prog("exit", fmt.Sprint(code))} {
			exit := t.run(cmd).exit
			if exit.Code != code || exit.Signal != 0 || exit.Reason != corral.ReasonExited {
				t.Errorf("%s: code %d, signal %d, reason %q", brief(cmd), exit.Code, exit.Signal, exit.Reason)
			}
		}
	}
}

func exitSignal(t *T) {
	for _, s := range []corral.Signal{corral.SIGHUP, corral.SIGINT, corral.SIGKILL, corral.SIGUSR1, corral.SIGPIPE, corral.SIGTERM, 35} {
		exit := t.run(t.sh("kill -%d $$; sleep 5", s)).exit
		if exit.Code != -1 || exit.Signal != s || exit.Reason != corral.ReasonExited {
			t.Errorf("killed by %v: code %d, signal %v, reason %q", s, exit.Code, exit.Signal, exit.Reason)
		}
	}
}

func exitShellSurvives(t *T) {
	for _, s := range []corral.Signal{corral.SIGTERM, corral.SIGKILL, corral.SIGUSR1} {
		exit := t.run(t.sh(`sh -c 'kill -%d $$; sleep 5'; exit $?`, s)).exit
		if exit.Code != 128+int(s) || exit.Signal != 0 {
			t.Errorf("child killed by %v: code %d, signal %v", s, exit.Code, exit.Signal)
		}
	}
}

func exitNotFound(t *T) {
	for _, cmd := range []corral.Command{
		{Args: []string{"no-such-program"}},
		{Args: []string{"/no-such-program"}},
		{Args: []string{"./no-such-program"}},
		{Shell: "no-such-program"},
		{Shell: "/no-such-program"},
	} {
		refused(t, cmd, 127, "no-such-program")
	}
}

func exitNotExecutable(t *T) {
	dir := t.dir()
	t.ok(t.sh("echo data > %s/not-a-program", dir))
	for _, cmd := range []corral.Command{
		{Args: []string{dir + "/not-a-program"}},
		{Args: []string{"./not-a-program"}, Dir: dir},
		{Args: []string{dir}},
		{Shell: dir + "/not-a-program"},
		{Shell: dir},
	} {
		refused(t, cmd, 126, dir)
	}
}

func exitArgumentTooLong(t *T) {
	refused(t, t.prog("argv", strings.Repeat("x", 200_000)), 126, "")
}

// refused runs a command that cannot be executed.
func refused(t *T, cmd corral.Command, code int, named string) {
	t.Helper()
	r := t.run(cmd)
	if r.exit.Code != code || r.exit.Signal != 0 {
		t.Errorf("%s: %v, not exit code %d", brief(cmd), r.exit, code)
	}
	if cmd.Dir != "" {
		named = "not-a-program"
	}
	if strings.TrimSpace(r.all) == "" || !strings.Contains(r.all, named) {
		t.Errorf("%s: the log does not name %q: %s", brief(cmd), named, clip(r.all))
	}
}

func exitTimes(t *T) {
	const nap = 300 * time.Millisecond
	p := t.start(t.sh("sleep 0.3"))
	exit := t.wait(p)
	took := exit.EndedAt.Sub(exit.StartedAt)
	if took < nap-20*time.Millisecond || took > t.soon(nap+700*time.Millisecond) {
		t.Errorf("StartedAt and EndedAt are %v apart after sleeping %v", took, nap)
	}
	if d := exit.StartedAt.Sub(p.Info().StartedAt).Abs(); d > t.soon(500*time.Millisecond) {
		t.Errorf("StartedAt differs from that of Info by %v", d)
	}
}
