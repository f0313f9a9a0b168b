package exectest

import (
	"errors"
	"fmt"

	"github.com/corral-exec/corral"
)

var removeCases = []Case{
	{Name: "remove/running", Doc: "Remove of a running process is ErrRunning and changes nothing.", Func: removeRunning},
	{Name: "remove/forgets", Doc: "After Remove the ID is ErrNotFound.", Func: removeForgets},
	{Name: "remove/twice", Doc: "Removing twice is no error.", Func: removeTwice},
	{Name: "remove/start-again", Doc: "After Remove the ID can be started again, also for another command.", Func: removeStartAgain},
	{Name: "remove/start-again-often", Doc: "An ID can be removed and started again any number of times, at once and through any handle of its process.", Func: removeStartAgainOften},
	{Name: "remove/start-again-killed", Doc: "An ID whose command was killed, or could not be executed, can be started again after Remove.", Func: removeStartAgainKilled},
	{Name: "remove/old-handle", Doc: "A handle from before Remove does nothing to the process that has the ID now, and Signal through it is ErrEnded or ErrNotFound.", Func: removeOldHandle},
	{Name: "remove/second-handle", Doc: "So does another handle, by which the process was not removed.", Func: removeSecondHandle},
}

func removeRunning(t *T) {
	p := t.start(withStdin(t.sh("cat")))
	t.isError("Remove", p.Remove(t.Ctx), corral.ErrRunning)
	t.write(p, "alive\n")
	t.closeStdin(p)
	equal(t, "the output", t.finish(p).stdout, "alive\n")
}

func (t *T) remove(p corral.Process) {
	t.Helper()
	if err := p.Remove(t.Ctx); err != nil {
		t.Fatalf("Remove: %v", err)
	}
}

func removeForgets(t *T) {
	p := t.run(t.sh("echo output"))
	t.remove(p)
	_, err := t.X.Attach(t.Ctx, p.Info().ID)
	t.isError("Attach after Remove", err, corral.ErrNotFound)
}

func removeTwice(t *T) {
	p := t.run(t.sh("true"))
	q, err := t.X.Attach(t.Ctx, p.Info().ID)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	t.remove(p)
	t.remove(p)
	t.remove(q)
}

func removeStartAgain(t *T) {
	cmd := t.sh("echo first; exit 1")
	cmd.ID = corral.NewID()
	t.remove(t.run(cmd))
	cmd.Shell = "echo second; exit 2"
	r := t.run(cmd)
	equal(t, "the exit code", r.exit.Code, 2)
	equal(t, "the output", r.stdout, "second\n")
}

func removeStartAgainOften(t *T) {
	id := corral.NewID()
	for n := range 12 {
		cmd := t.sh("echo %d; exit %d", n, n)
		cmd.ID = id
		p := t.start(cmd)
		if n%3 == 1 { // through a handle of its own, before the end
			q, err := t.X.Attach(t.Ctx, id)
			if err != nil {
				t.Fatalf("Attach: %v", err)
			}
			p = q
		}
		r := t.finish(p)
		equal(t, "the exit code", r.exit.Code, n)
		equal(t, "the output", r.stdout, fmt.Sprintf("%d\n", n))
		if n%3 == 2 { // and after it
			q, err := t.X.Attach(t.Ctx, id)
			if err != nil {
				t.Fatalf("Attach: %v", err)
			}
			p = q
		}
		t.remove(p)
	}
}

func removeStartAgainKilled(t *T) {
	id := corral.NewID()
	again := func(code int) {
		t.Helper()
		cmd := t.sh("exit %d", code)
		cmd.ID = id
		p := t.start(cmd)
		equal(t, "the exit code", t.wait(p).Code, code)
		t.remove(p)
	}
	cmd := t.sh("kill -KILL $$")
	cmd.ID = id
	p := t.start(cmd)
	t.wait(p)
	t.remove(p)
	again(31)
	missing := t.prog()
	missing.ID, missing.Args = id, []string{"/nonexistent/program"}
	p = t.start(missing)
	equal(t, "the exit code", t.wait(p).Code, 127)
	t.remove(p)
	again(32)
}

func removeOldHandle(t *T) {
	cmd := t.sh("exit 3")
	cmd.ID = corral.NewID()
	old := t.start(cmd)
	t.wait(old)
	t.leavesAlone(old, old)
}

func removeSecondHandle(t *T) {
	cmd := t.sh("exit 3")
	cmd.ID = corral.NewID()
	first := t.start(cmd)
	t.wait(first)
	second, err := t.X.Attach(t.Ctx, cmd.ID)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	t.leavesAlone(first, second)
}

// reopenOldHandle is removeOldHandle for a handle of a process that ended in an
// earlier life, which an executor may know less about.
func reopenOldHandle(t *T) {
	t.X = t.fresh()
	cmd := t.sh("exit 3")
	cmd.ID = corral.NewID()
	p := t.start(cmd)
	t.wait(p)
	old := t.nextLife(p)
	t.leavesAlone(old, old)
}

// leavesAlone removes a process by one of its handles, starts its ID again, and checks
// that old, which is a handle of the process too, does nothing to what was started.
func (t *T) leavesAlone(by, old corral.Process) {
	t.Helper()
	t.remove(by)
	cmd := withStdin(t.sh("cat; exit 4"))
	cmd.ID = old.Info().ID
	p := t.start(cmd)
	if err := old.Remove(t.Ctx); err != nil && !errors.Is(err, corral.ErrRunning) {
		t.Errorf("Remove by the old handle: %v", err)
	}
	if err := old.CloseStdin(t.Ctx); err != nil && !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("CloseStdin by the old handle: %v", err)
	}
	if _, err := old.Write(t.Ctx, []byte("not for the new process")); err == nil {
		t.Error("Write by the old handle is no error")
	}
	if err := old.Signal(t.Ctx, corral.SIGKILL); !errors.Is(err, corral.ErrEnded) && !errors.Is(err, corral.ErrNotFound) && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Signal by the old handle: %v, want ErrEnded or ErrNotFound", err)
	}
	if exit, err := old.Wait(t.Ctx); err == nil {
		equal(t, "the exit code of the old process", exit.Code, 3)
	}
	q, err := t.X.Attach(t.Ctx, cmd.ID)
	if err != nil {
		t.Fatalf("Attach to the new process: %v", err)
	}
	t.write(q, "alive\n")
	t.closeStdin(q)
	r := t.finish(p)
	equal(t, "the output", r.stdout, "alive\n")
	equal(t, "the exit code", r.exit.Code, 4)
	if err := old.Remove(t.Ctx); err != nil {
		t.Errorf("Remove by the old handle: %v", err)
	}
	if _, err := t.X.Attach(t.Ctx, cmd.ID); err != nil {
		t.Errorf("Remove by an old handle removed the new process: Attach: %v", err)
	}
}
