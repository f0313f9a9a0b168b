package exectest

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

var infoCases = []Case{
	{Name: "info/fields", Doc: "Info has the ID, the PID where it runs, the host that it really runs on and the start time.", Func: infoFields},
	{Name: "info/constant", Doc: "Info does not change, not even when the process ends, and is the same from every handle.", Func: infoConstant},
	{Name: "info/shell-pid", Doc: "The PID of shell text is that of the shell.", Func: infoShellPID},
}

func infoFields(t *T) {
	cmd := t.prog("ids")
	cmd.ID = corral.NewID()
	before := time.Now()
	r := t.run(cmd)
	info := r.Info()
	equal(t, "ID", info.ID, cmd.ID)
	equal(t, "Host", info.Host, t.Target.Info.Host)
	equal(t, "Node", info.Node, t.Target.Info.Node)
	equal(t, "Sandboxed", info.Sandboxed, t.Target.Info.Sandboxed)
	if d := info.StartedAt.Sub(before); d < -time.Second || d > t.soon(5*time.Second) {
		t.Errorf("StartedAt is %v after Start was called", d)
	}
	if info.PID != 0 {
		equal(t, "PID", fmt.Sprint(info.PID), strings.Fields(r.stdout)[0])
	}
	if n := corral.JoinNotice(info.Notice); n != info.Notice {
		t.Errorf("the notice %q is not one short line", info.Notice)
	}
	for _, w := range info.Warnings {
		if !strings.HasSuffix(w, ".") {
			t.Errorf("the warning %q is not a complete sentence", w)
		}
	}
}

func infoConstant(t *T) {
	p := t.start(t.sh("sleep 0.1"))
	first := p.Info()
	t.wait(p)
	q, err := t.X.Attach(t.Ctx, first.ID)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	for _, later := range []corral.Info{p.Info(), q.Info()} {
		if diff := cmp.Diff(first, later); diff != "" {
			t.Errorf("Info changed (-first +later):\n%s", diff)
		}
	}
}

func infoShellPID(t *T) {
	r := t.run(t.sh("echo $$"))
	if pid := r.Info().PID; pid != 0 {
		equal(t, "PID", fmt.Sprint(pid), strings.TrimSpace(r.stdout))
	}
}
