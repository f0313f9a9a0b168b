package exectest

import "github.com/corral-exec/corral"

var oomCases = []Case{
	{Name: "oom/killed", Doc: "A command that takes more memory than there is ends by SIGKILL with the reason oom; what it wrote before is kept.", Func: oomKilled, serial: true, memory: true},
	{Name: "oom/shell", Doc: "So does a shell that reports such an end of its child with 137.", Func: oomShell, serial: true, memory: true},
	{Name: "oom/alone", Doc: "It takes no other command with it, and no other end is said to be its.", Func: oomAlone, serial: true, memory: true},
}

// eat is a command that takes all the memory that there is, once it has printed
// "hungry".
func (t *T) eat() corral.Command { return t.prog("eat") }

func oomKilled(t *T) {
	t = t.on(t.fresh())
	r := t.run(t.eat())
	if r.exit.Reason != corral.ReasonOOM || r.exit.Signal != corral.SIGKILL || r.exit.Code != -1 {
		t.Errorf("%v, reason %q", r.exit, r.exit.Reason)
	}
	equal(t, "the output", r.all, "hungry\n")
}

func oomShell(t *T) {
	t = t.on(t.fresh())
	r := t.run(t.sh("%s eat; exit $?", t.Target.TestProg))
	if r.exit.Reason != corral.ReasonOOM || r.exit.Signal != 0 || r.exit.Code != 137 {
		t.Errorf("%v, reason %q", r.exit, r.exit.Reason)
	}
}

func oomAlone(t *T) {
	t = t.on(t.fresh())
	other := t.start(t.prog("sleep"))
	if r := t.run(t.eat()); r.exit.Reason != corral.ReasonOOM {
		t.Errorf("%v, reason %q", r.exit, r.exit.Reason)
	}
	t.signal(other, corral.SIGKILL) // it is killed as well, but not for that
	if exit := t.wait(other); exit.Reason != corral.ReasonExited || exit.Signal != corral.SIGKILL {
		t.Errorf("the other: %v, reason %q", exit, exit.Reason)
	}
	if r := t.run(t.sh("exit 137")); r.exit.Reason != corral.ReasonExited {
		t.Errorf("after it: %v, reason %q", r.exit, r.exit.Reason)
	}
}
