package exectest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/corral-exec/corral"
)

var startCases = []Case{
	{Name: "start/ids", Doc: "Start without an ID makes a valid one up, different each time.", Func: startIDs},
	{Name: "start/concurrent", Doc: "200 commands started at once each have their own output and exit code.", Func: startConcurrent},
	{Name: "start/same-id", Doc: "Starting an ID again returns the process it already started, running or ended, and runs nothing.", Func: startSameID},
	{Name: "start/same-id-concurrent", Doc: "50 Starts of one ID at once run the command once and return the same process.", Func: startSameIDConcurrent},
	{Name: "start/conflict", Doc: "An ID that belongs to a different command is ErrConflict, and nothing runs.", Func: startConflict},
	{Name: "start/invalid", Doc: "What Command.Validate refuses is ErrInvalid from Start.", Func: startInvalid},
	{Name: "start/descriptors", Doc: "A command has descriptors 0, 1 and 2 open and no other.", Func: startDescriptors},
	{Name: "start/signals", Doc: "A command begins with no signal blocked or ignored.", Func: startSignals},
}

func startIDs(t *T) {
	seen := map[string]bool{}
	for range 10 {
		id := t.start(t.sh("true")).Info().ID
		if err := corral.ValidateID(id); err != nil || seen[id] {
			t.Errorf("made up %q: %v, seen before: %v", id, err, seen[id])
		}
		seen[id] = true
	}
}

func startConcurrent(t *T) {
	var wg sync.WaitGroup
	n := max(t.scaled(200), 20)
	for i := range n {
		wg.Go(func() {
			p, err := t.X.Start(t.Ctx, t.sh("echo out-%d; echo err-%d >&2; exit %d", i, i, i))
			if err != nil {
				t.Errorf("Start %d: %v", i, err)
				return
			}
			t.Cleanup(func() { t.dispose(p) })
			exit, err := p.Wait(t.Ctx)
			if err != nil || exit.Code != i {
				t.Errorf("command %d: %v, %v", i, exit, err)
				return
			}
			var out [3]string
			for off := int64(0); ; {
				c, err := p.Log().Read(t.Ctx, off, make([]byte, 100))
				if err != nil || c.Stream > corral.Stderr {
					break // whatever is wrong shows in what is missing
				}
				out[c.Stream] += string(c.Data)
				off = c.Next()
			}
			if want := [3]string{"", fmt.Sprintf("out-%d\n", i), fmt.Sprintf("err-%d\n", i)}; out != want {
				t.Errorf("command %d printed %q", i, out)
			}
		})
	}
	wg.Wait()
}

// once is a command with an ID that leaves a line in a file each time it runs.
func (t *T) once(file string) corral.Command {
	cmd := t.sh("echo ran >> %s; sleep 0.2; echo output; exit 5", file)
	cmd.ID = corral.NewID()
	return cmd
}

func (t *T) same(a, b corral.Process) {
	t.Helper()
	ia, ib := a.Info(), b.Info()
	if ia.ID != ib.ID || ia.PID != ib.PID || !ia.StartedAt.Equal(ib.StartedAt) {
		t.Errorf("not the same process: %+v and %+v", ia, ib)
	}
}

func startSameID(t *T) {
	file := t.dir() + "/runs"
	cmd := t.once(file)
	first := t.start(cmd)
	again := t.start(cmd)
	t.same(first, again)
	r := t.finish(again)
	equal(t, "the exit code", r.exit.Code, 5)
	equal(t, "the output", r.stdout, "output\n")
	ended := t.start(cmd)
	t.same(first, ended)
	r = t.finish(ended)
	equal(t, "the exit code, started again after the end", r.exit, t.wait(first))
	equal(t, "the output, started again after the end", r.stdout, "output\n")
	equal(t, "what the runs left", t.ok(t.sh("cat %s", file)), "ran\n")
}

func startSameIDConcurrent(t *T) {
	file := t.dir() + "/runs"
	cmd := t.once(file)
	var mu sync.Mutex
	var all []corral.Process
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			p, err := t.X.Start(t.Ctx, cmd)
			if err != nil {
				t.Errorf("Start: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, p)
		})
	}
	wg.Wait()
	if len(all) == 0 {
		t.Fatal("none started")
	}
	t.Cleanup(func() { t.dispose(all[0]) })
	for _, p := range all {
		t.same(all[0], p)
		equal(t, "the exit code", t.wait(p).Code, 5)
	}
	equal(t, "what the runs left", t.ok(t.sh("cat %s", file)), "ran\n")
}

func startConflict(t *T) {
	dir := t.dir()
	cmd := t.sh("sleep 0.1")
	cmd.ID = corral.NewID()
	p := t.start(cmd)
	for range 2 { // while it runs and after
		for _, other := range []corral.Command{
			{ID: cmd.ID, Shell: "touch " + dir + "/ran"},
			{ID: cmd.ID, Args: []string{"touch", dir + "/ran"}},
			{ID: cmd.ID, Shell: cmd.Shell, Dir: "/"},
			{ID: cmd.ID, Shell: cmd.Shell, Env: map[string]string{"CORRAL_TEST_A": "1"}},
		} {
			_, err := t.X.Start(t.Ctx, other)
			t.isError("Start of "+brief(other), err, corral.ErrConflict)
		}
		t.wait(p)
	}
	if t.exists(dir + "/ran") {
		t.Error("the other command ran")
	}
}

func startInvalid(t *T) {
	for _, cmd := range []corral.Command{
		{},
		{Shell: " \n\t"},
		{Shell: "true", Args: []string{"true"}},
		{Args: []string{""}},
		{Shell: "true\x00"},
		{Args: []string{"true", "a\x00b"}},
		{Shell: "true", Timeout: -1},
		{Shell: "true", ID: "../escape"},
		{Shell: "true", ID: strings.Repeat("x", 65)},
		{Shell: "true", Env: map[string]string{"A=B": "c"}},
		{Shell: "true", Env: map[string]string{"": "c"}},
		{Shell: "true", Dir: "a\x00b"},
		{Shell: "true", PathPrepend: []string{"/a:/b"}},
		{Shell: "true", Log: corral.LogLimit{Head: -1}},
	} {
		p, err := t.X.Start(t.Ctx, cmd)
		if err == nil {
			t.Cleanup(func() { t.dispose(p) })
		}
		t.isError(fmt.Sprintf("Start(%+v)", cmd), err, corral.ErrInvalid)
	}
}

func startDescriptors(t *T) {
	equal(t, "the open descriptors", t.ok(t.prog("fds")), "0\n1\n2\n")
	equal(t, "the open descriptors, with stdin", t.ok(withStdin(t.prog("fds"))), "0\n1\n2\n")
	equal(t, "the open descriptors, with a terminal", t.ok(onTTY(t.prog("fds"))), "0\r\n1\r\n2\r\n")
}

func startSignals(t *T) {
	// A trap says nothing of a signal that was ignored from the beginning,
	// and some shells look after signals themselves: a plain program has to
	// die of each.
	for _, s := range []corral.Signal{1, 2, 3, 10, 12, 13, 14, 15, 34, 50, 64} {
		p := t.start(corral.Command{Args: []string{"sleep", "20"}})
		t.signal(p, s)
		if exit := t.wait(p); exit.Signal != s {
			t.Errorf("%v does not end the command: %v", s, exit)
		}
	}
}
