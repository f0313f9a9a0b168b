package exectest

import (
	"github.com/corral-exec/corral"
)

var removeCases = []Case{
	{Name: "remove/running", Doc: "Remove of a running process is ErrRunning and changes nothing.", Func: removeRunning},
	{Name: "remove/forgets", Doc: "After Remove the ID is ErrNotFound.", Func: removeForgets},
	{Name: "remove/twice", Doc: "Removing twice is no error.", Func: removeTwice},
	{Name: "remove/start-again", Doc: "After Remove the ID can be started again, also for another command.", Func: removeStartAgain},
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
