//go:build linux

package exectest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// mutants are the defects that localref can have, and the cases that must
// notice each. Every case is here: one that no defect fails tests nothing.
var mutants = []struct{ defect, cases string }{
	// localref itself, which is exempt.
	{"", "timeout/daemon-detached"},
	// It has no memory limit; that these cases can fail shows every
	// executor that has one and does not look at the kernel's count.
	{"", "oom/killed oom/shell oom/alone"},

	{"always exits with 0", "exit/code start/concurrent"},
	{"makes 128+n of signals", "exit/signal"},
	{"makes signals of 128+n", "exit/shell-survives"},
	{"makes an error of a missing program", "exit/not-found"},
	{"says nothing about a missing program", "exit/not-found exit/not-executable exit/argument-too-long"},
	{"exits with 1 for what cannot be executed", "exit/not-found exit/not-executable exit/argument-too-long"},
	{"has no times", "exit/times"},

	{"takes standard error for standard output", "output/streams"},
	{"ignores MergeStderr", "output/merged"},
	{"loses order", "output/order"},
	{"prints a banner", "output/none"},
	{"drops NUL bytes", "output/binary"},
	{"makes output UTF-8", "output/binary output/invalid-utf8 output/split-characters"},
	{"drops the last byte of a burst", "output/last-bytes output/large output/both-large tty/last-bytes tty/large"},
	{"keeps back the last byte of a flood", "output/small-pieces"},
	{"ends with its output", "output/closed"},
	{"wakes no reader", "output/while-running log/wakes"},

	{"keeps stdin open without being asked", "stdin/none"},
	{"does not close stdin", "stdin/eof"},
	{"closes stdin after the first Write", "stdin/open"},
	{"closes only once", "stdin/close-twice"},
	{"accepts every Write", "stdin/none stdin/write-after-close stdin/write-after-exit"},
	{"knows no ErrEnded", "stdin/nobody-reads stdin/exit-ends-write signal/ended"},
	{"keeps the command's end of stdin", "stdin/nobody-reads"},
	{"loses input", "stdin/large stdin/binary"},
	{"miscounts a cancelled Write", "stdin/cancelled-write"},
	{"gives up on slow readers", "stdin/backpressure"},
	{"mixes writes", "stdin/concurrent-writes"},

	{"does not make the terminal the controlling one", "tty/isatty"},
	{"gives everything a terminal", "tty/none"},
	{"ignores the terminal's size", "tty/size"},
	{"sets no TERM", "tty/term"},
	{"resizes nothing", "tty/resize tty/resize-without"},
	{"has a pipe for standard error on a terminal", "tty/isatty tty/one-stream"},
	{"has no input on a terminal without Stdin", "tty/input"},
	{"strips escapes", "tty/colours"},
	{"drops control characters", "tty/interrupt tty/eof tty/eof-shell"},
	{"erases bytes of characters", "tty/erase"},
	{"takes Ctrl-C for itself", "tty/interrupt-job"},
	{"cannot type end-of-file", "tty/eof tty/eof-shell"},
	{"types end-of-file once", "tty/eof-late"},
	{"is slow to notice the end", "tty/daemon"},

	{"inherits our environment", "env/exact-args env/exact-shell"},
	{"sets a variable twice", "env/exact-args"},
	{"drops a variable", "env/exact-args env/exact-shell"},
	{"drops empty variables", "env/values"},
	{"trims values", "env/values"},
	{"makes values UTF-8", "env/invalid-utf8"},
	{"ignores overrides", "env/override"},
	{"cuts values", "env/large"},
	{"keeps Env for the next command", "env/isolated"},

	{"ignores PathPrepend", "path/prepend"},
	{"appends PathPrepend", "path/prepend path/prepend-first"},
	{"expands PathPrepend in the shell", "path/prepend-literal"},
	{"ignores PATH in Env", "path/env"},
	{"uses our PATH", "path/not-ours"},
	{"looks programs up from the workspace", "path/relative-program"},

	{"does not change the directory", "dir/default dir/relative dir/absolute dir/forbidden"},
	{"ignores the workspace", "dir/default dir/relative"},
	{"does not check the directory", "dir/missing dir/checked-first"},

	{"splits arguments at spaces", "args/exact"},
	{"cuts arguments", "args/large args/shell-text"},
	{"does not pass the name of the program", "args/zeroth"},
	{"makes one line of shell text", "args/shell-text"},

	{"ignores time-outs", "timeout/kills timeout/tty"},
	{"gives no reason", "timeout/kills"},
	{"knows only whole seconds", "timeout/fraction"},
	{"calls every end a time-out", "timeout/not-reached"},
	{"drops the output on a time-out", "timeout/output"},
	{"gives no grace", "timeout/kills timeout/grace timeout/ignores-term"},
	{"always gives the default grace", "timeout/no-grace"},
	{"only asks nicely", "timeout/ignores-term timeout/stopped timeout/nohup"},
	{"signals only the command", "timeout/children signal/tree"},
	{"signals only the process group", "timeout/setsid timeout/forking timeout/daemon signal/setsid"},
	{"does not look at open pipes", "timeout/daemon-clear-env signal/daemon"},
	{"does not look at environments", "timeout/daemon-closed-output"},
	{"counts commands by itself", "signal/other-executors"},
	{"signals everything it started", "timeout/alone signal/others-alone"},

	{"waits for the last descendant", "drain/returns drain/shell-background drain/merged"},
	{"closes the output after the drain", "drain/survives drain/merged"},
	{"stops reading after the end", "drain/survives"},
	{"kills what is left after the end", "drain/survives"},
	{"records what comes after the end", "drain/survives"},
	{"does not drain", "drain/complete wait/after-log"},

	{"hides orphans", "orphans/listed orphans/daemon orphans/reopened"},
	{"takes others for its orphans", "orphans/listed orphans/none"},

	{"starts although cancelled", "cancel/start-before"},
	{"kills with the context of Start", "cancel/start-after"},
	{"cannot cancel Wait", "cancel/wait"},
	{"cannot cancel Read", "cancel/read"},
	{"cannot cancel Write", "cancel/write stdin/cancelled-write"},
	{"holds others up", "cancel/write-behind cancel/close-behind cancel/signal-behind"},
	{"ends the command when a call is cancelled", "cancel/wait cancel/write"},

	{"makes TERM of every signal", "signal/deadly signal/handled signal/stop signal/tty"},
	{"knows only classic signals", "signal/deadly signal/handled"},
	{"forgets what was left behind", "signal/leftovers"},
	{"sends anything", "signal/invalid"},

	{"makes up bad ids", "start/ids"},
	{"starts an id twice", "start/same-id start/same-id-concurrent"},
	{"ignores conflicts", "start/conflict"},
	{"does not validate", "start/invalid"},
	{"passes a descriptor too many", "start/descriptors"},
	{"ignores SIGPIPE in commands", "start/signals"},

	{"finds nothing", "attach/running"},
	{"forgets what ended", "attach/ended"},
	{"attaches to anything", "attach/unknown"},
	{"does not tell what it started", "attach/digest"},

	{"ignores offsets", "log/any-offset log/any-offset-running log/two-readers"},
	{"swallows a byte", "log/any-offset log/two-readers cap/running"},
	{"answers with what is before the offset", "log/future-offset"},
	{"says EOF too early", "log/wakes log/future-offset"},
	{"does not block", "log/wakes log/future-offset"},
	{"does not tell readers of the end", "log/wakes-at-end"},
	{"never says EOF", "log/beyond-end"},
	{"says it has ended", "log/stat output/closed"},
	{"returns more than one stream", "log/one-stream-chunks"},

	{"keeps everything", "cap/head-and-tail"},
	{"keeps only the tail", "cap/head-and-tail"},
	{"hides the gap", "cap/head-and-tail cap/running"},
	{"counts only what it kept", "cap/head-and-tail"},
	{"cuts too early", "cap/not-reached"},
	{"forgets streams after the gap", "cap/streams"},
	{"blocks when the log is full", "cap/bounded"},

	{"lets only one wait", "wait/many wait/twice"},

	{"removes what runs", "remove/running"},
	{"removes nothing", "remove/forgets remove/start-again remove/start-again-often remove/start-again-killed reopen/removed"},
	{"removes only once", "remove/twice"},
	{"signals by ID alone", "remove/old-handle remove/second-handle reopen/old-handle"},

	{"reports a wrong PID", "info/fields info/shell-pid"},
	{"claims to be a sandbox", "info/fields"},
	{"changes Info at the end", "info/constant"},
	{"wraps the shell in a shell", "info/shell-pid"},

	{"leaks a descriptor", "leak/descriptors leak/close"},
	{"keeps its log open", "leak/descriptors"},
	{"leaks a goroutine", "leak/goroutines"},
	{"leaks a zombie", "leak/processes"},

	{"forgets everything between lives", `reopen/running reopen/ended-before reopen/ended-between
		reopen/stdin reopen/tty reopen/signal reopen/timeout reopen/same-id reopen/gap reopen/many-lives`},
}

// TestMutantsAreCaught runs each defect against the cases that are to notice
// it. Most of them wait rather than compute, so more run at a time than there
// are processors.
func TestMutantsAreCaught(t *testing.T) {
	cases := map[string]Case{}
	for _, c := range Cases() {
		cases[c.Name] = c
	}
	type pair struct {
		defect string
		c      Case
	}
	var serial, parallel []pair
	for _, m := range mutants {
		for _, name := range strings.Fields(m.cases) {
			c, ok := cases[name]
			switch {
			case !ok:
				t.Errorf("%q: no case is called %q", m.defect, name)
			case c.serial:
				serial = append(serial, pair{m.defect, c})
			default:
				parallel = append(parallel, pair{m.defect, c})
			}
		}
	}
	// Who runs out of patience has caught the defect, so a busy machine needs no
	// more of it than a quiet one.
	patience := 2 * time.Second
	if Race {
		patience *= 3
	}
	caught := func(t *testing.T, p pair) {
		tg := refTarget(t, p.defect)
		tg.patience = patience
		if p.c.memory {
			tg.TestProg = limited(t, tg.TestProg)
		}
		s := &scope{TB: t}
		defer s.end()
		// Some cases look for a while at what must not happen. On a busy machine
		// a defect can show later than that, but hardly each time.
		for range 3 {
			if failures, _ := p.c.probe(t, tg, tg.New(s)); len(failures) > 0 {
				t.Logf("%s: %s: %s", p.defect, p.c.Name, strings.TrimSpace(failures[0]))
				return
			}
		}
		t.Errorf("an executor that %s passes %s", p.defect, p.c.Name)
	}
	for _, p := range serial {
		t.Run(p.c.Name+"/"+p.defect, func(t *testing.T) { caught(t, p) })
	}
	next := make(chan pair)
	var wg sync.WaitGroup
	for range 12 { // most of the time they wait
		wg.Go(func() {
			for p := range next {
				t.Run(p.c.Name+"/"+p.defect, func(t *testing.T) { caught(t, p) })
			}
		})
	}
	for _, p := range parallel {
		next <- p
	}
	close(next)
	wg.Wait()
}

// limited is a program that runs prog with little memory. Localref has no limit, and
// until the patience runs out a command that takes all that there is takes the machine's.
func limited(t *testing.T, prog string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "limited")
	if err := os.WriteFile(file, []byte("#!/bin/sh\nulimit -v 1000000\nexec "+prog+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestEveryCaseHasAMutant(t *testing.T) {
	var all []string
	for _, m := range mutants {
		all = append(all, strings.Fields(m.cases)...)
	}
	for _, c := range Cases() {
		if !slices.Contains(all, c.Name) {
			t.Errorf("no mutant fails %s", c.Name)
		}
	}
}
