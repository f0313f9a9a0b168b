package exectest

import (
	"time"

	"github.com/corral-exec/corral"
)

var attachCases = []Case{
	{Name: "attach/running", Doc: "Attach returns a running process: its output from the beginning, its input, its end.", Func: attachRunning},
	{Name: "attach/ended", Doc: "Attach returns an ended process: its output and how it ended.", Func: attachEnded},
	{Name: "attach/unknown", Doc: "An ID that was never started, or cannot be one, is ErrNotFound and starts nothing.", Func: attachUnknown},
	{Name: "attach/digest", Doc: "Info tells what a process was started as (Digest), from Start and from Attach, while it runs and after: who finds it need not start anything to compare.", Func: attachDigest},
}

func attachRunning(t *T) {
	p := t.start(withStdin(t.sh("echo begin; cat; exit 11")))
	t.await(p, 0, "begin\n")
	q, err := t.X.Attach(t.Ctx, p.Info().ID)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	t.same(p, q)
	t.write(q, "from q\n")
	t.write(p, "from p\n")
	t.closeStdin(q)
	r := t.finish(q)
	equal(t, "the output", r.stdout, "begin\nfrom q\nfrom p\n")
	equal(t, "the exit code", r.exit.Code, 11)
	equal(t, "what the first handle says", t.wait(p), r.exit)
}

func attachEnded(t *T) {
	first := t.run(t.sh("echo output; echo error >&2; exit 12"))
	p, err := t.X.Attach(t.Ctx, first.Info().ID)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	t.same(first, p)
	r := t.finish(p)
	equal(t, "the exit", r.exit, first.exit)
	equal(t, "the output", r.stdout, "output\n")
	equal(t, "standard error", r.stderr, "error\n")
}

func attachUnknown(t *T) {
	for _, id := range []string{corral.NewID(), "", "../escape", "a b", "\x00"} {
		_, err := t.X.Attach(t.Ctx, id)
		t.isError("Attach of "+clip(id), err, corral.ErrNotFound)
	}
}

func attachDigest(t *T) {
	cmd := withStdin(t.sh("cat"))
	cmd.Env = map[string]string{"CORRAL_TEST_A": "1"}
	cmd.Timeout = time.Minute
	cmd.ID = corral.NewID()
	p := t.start(cmd)
	check := func(when string) {
		t.Helper()
		equal(t, "the digest from Start, "+when, p.Info().Digest, cmd.Digest())
		found, err := t.X.Attach(t.Ctx, cmd.ID)
		if err != nil {
			t.Fatalf("Attach, %s: %v", when, err)
		}
		equal(t, "the digest from Attach, "+when, found.Info().Digest, cmd.Digest())
	}
	check("while it runs")
	t.closeStdin(p)
	t.wait(p)
	check("after its end")
}
