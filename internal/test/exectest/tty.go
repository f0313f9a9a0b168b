package exectest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/exectest/pattern"
	"github.com/corral-exec/corral/runner"
)

var ttyCases = []Case{
	{Name: "tty/isatty", Doc: "All three standard streams are one terminal, which is the controlling one and has a name.", Func: ttyIsATTY},
	{Name: "tty/none", Doc: "Without TTY none of the standard streams is a terminal and there is no controlling one.", Func: ttyNone},
	{Name: "tty/size", Doc: "The terminal has the size asked for; a zero size is DefaultSize.", Func: ttySize},
	{Name: "tty/term", Doc: "A command on a terminal has a TERM, xterm-256color if nobody says otherwise.", Func: ttyTerm},
	{Name: "tty/resize", Doc: "Resize changes the size and the command gets SIGWINCH.", Func: ttyResize},
	{Name: "tty/resize-without", Doc: "Resize without a terminal answers errors.ErrUnsupported.", Func: ttyResizeWithout},
	{Name: "tty/one-stream", Doc: "Standard error is part of standard output, in exact order.", Func: ttyOneStream},
	{Name: "tty/input", Doc: "A terminal has input without Stdin, and echoes it.", Func: ttyInput},
	{Name: "tty/colours", Doc: "Escape sequences and multi-byte characters pass unchanged, in both directions.", Func: ttyColours},
	{Name: "tty/erase", Doc: "Backspace erases a whole character, also one of several bytes, where the terminal edits the line.", Func: ttyErase},
	{Name: "tty/interrupt", Doc: "Ctrl-C typed into the terminal interrupts the command.", Func: ttyInterrupt},
	{Name: "tty/interrupt-job", Doc: "Ctrl-C reaches the foreground job of an interactive shell and not the shell.", Func: ttyInterruptJob},
	{Name: "tty/eof", Doc: "CloseStdin types the end-of-file character.", Func: ttyEOF},
	{Name: "tty/eof-late", Doc: "Run ends the input also of a program that throws away what was typed before its prompt, and of all that follow.", Func: ttyEOFLate},
	{Name: "tty/eof-shell", Doc: "An interactive shell that Run gives no input ends with 0.", Func: ttyEOFShell},
	{Name: "tty/last-bytes", Doc: "What a command writes to the terminal right before it exits is not lost.", Func: ttyLastBytes},
	{Name: "tty/large", Doc: "Megabytes through a terminal lose nothing.", Func: ttyLarge},
	{Name: "tty/daemon", Doc: "A daemon that keeps the terminal open does not delay Wait.", Func: ttyDaemon},
}

// onTTY is cmd on a terminal of the default size.
func onTTY(cmd corral.Command) corral.Command {
	cmd.TTY = &corral.Size{}
	return cmd
}

func ttyIsATTY(t *T) {
	got := t.ok(onTTY(t.prog("tty")))
	for _, want := range []string{"tty0=true\r\n", "tty1=true\r\n", "tty2=true\r\n", "controlling=true\r\n", "name=/dev/"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func ttyNone(t *T) {
	got := t.ok(t.prog("tty"))
	for _, want := range []string{"tty0=false\n", "tty1=false\n", "tty2=false\n", "controlling=false\n", "size=none\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func ttySize(t *T) {
	for _, test := range []struct{ set, want corral.Size }{
		{corral.Size{}, corral.DefaultSize},
		{corral.Size{Rows: 7, Cols: 33}, corral.Size{Rows: 7, Cols: 33}},
		{corral.Size{Rows: 1000, Cols: 2000}, corral.Size{Rows: 1000, Cols: 2000}},
	} {
		cmd := t.prog("tty")
		cmd.TTY = &test.set
		if got := t.ok(cmd); !strings.Contains(got, sizeLine(test.want)) {
			t.Errorf("started with %v: no %q in %q", test.set, sizeLine(test.want), got)
		}
	}
}

func sizeLine(s corral.Size) string { return fmt.Sprintf("size=%dx%d\r\n", s.Rows, s.Cols) }

func ttyTerm(t *T) {
	want := "xterm-256color"
	if base, ok := t.Target.BaseEnv["TERM"]; ok {
		want = base
	}
	cmd := onTTY(t.prog("env"))
	equal(t, "TERM", t.environ(t.ok(cmd))["TERM"], want)
	cmd.Env = map[string]string{"TERM": "vt100"}
	equal(t, "TERM of the call", t.environ(t.ok(cmd))["TERM"], "vt100")
}

func ttyResize(t *T) {
	p := t.start(onTTY(t.prog("winch")))
	off := t.await(p, 0, sizeLine(corral.DefaultSize))
	for _, s := range []corral.Size{{Rows: 50, Cols: 200}, {Rows: 10, Cols: 20}} {
		if err := p.Resize(t.Ctx, s); err != nil {
			t.Fatalf("Resize(%v): %v", s, err)
		}
		off = t.await(p, off, sizeLine(s))
	}
	t.closeStdin(p)
	equal(t, "the exit code", t.wait(p).Code, 0)
}

func ttyResizeWithout(t *T) {
	p := t.start(t.prog("sleep"))
	t.isError("Resize", p.Resize(t.Ctx, corral.DefaultSize), errors.ErrUnsupported)
}

func ttyOneStream(t *T) {
	const n = 500
	r := t.run(onTTY(t.prog("alternate", fmt.Sprint(n))))
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "o%d\r\ne%d\r\n", i, i)
	}
	equal(t, "standard output", r.stdout, want.String())
	equal(t, "standard error", r.stderr, "")
}

func ttyInput(t *T) {
	p := t.start(onTTY(t.sh("read line; echo got-$line")))
	t.write(p, "hello\n")
	equal(t, "the terminal", t.finish(p).stdout, "hello\r\ngot-hello\r\n")
}

func ttyColours(t *T) {
	const text = "\x1b[1;31mrot\x1b[0m \x1b]0;title\x07 \x1b[?2004h 日本語 😀\x1b[K"
	equal(t, "the terminal", t.ok(onTTY(t.prog("emit", "0s", fmt.Sprintf("%x", text)))), text)
	p := t.start(onTTY(t.sh("stty -echo -icanon -icrnl min 1; echo ready; head -c %d | od -An -v -tx1", len(text))))
	off := t.await(p, 0, "ready\r\n")
	t.write(p, text)
	var got strings.Builder
	t.scan(p, off, 4<<10, func(c corral.Chunk) bool { got.Write(c.Data); return true })
	equal(t, "what the command read", strings.Join(strings.Fields(got.String()), ""), fmt.Sprintf("%x", text))
}

func ttyInterrupt(t *T) {
	p := t.start(onTTY(t.sh("echo ready; exec sleep 20")))
	t.await(p, 0, "ready\r\n")
	t.write(p, "\x03")
	exit := t.wait(p)
	if exit.Code != -1 || exit.Signal != corral.SIGINT {
		t.Errorf("%v, not SIGINT", exit)
	}
}

func ttyInterruptJob(t *T) {
	p := t.start(onTTY(corral.Command{Args: []string{"sh", "-i"}}))
	// The words typed are echoed; only those printed have the sum in them.
	t.write(p, "sh -c 'echo job-$((40+2)); exec sleep 20'\n")
	off := t.await(p, 0, "job-42\r\n")
	t.write(p, "\x03")
	t.write(p, "echo alive-$((50+2))\n")
	t.await(p, off, "alive-52\r\n")
	t.write(p, "exit 9\n")
	equal(t, "the exit code of the shell", t.wait(p).Code, 9)
}

func ttyErase(t *T) {
	p := t.start(onTTY(t.sh("cat")))
	t.write(p, "日é\x7f\x7fa\n")
	t.closeStdin(p)
	if r := t.finish(p); !strings.HasSuffix(r.stdout, "\r\na\r\n") { // what cat got
		t.Errorf("the terminal ends with %s", clip(r.stdout))
	}
}

func ttyEOF(t *T) {
	p := t.start(onTTY(t.sh("cat; echo end")))
	t.write(p, "line\n")
	t.await(p, 0, "line\r\nline\r\n") // echo, then cat
	t.closeStdin(p)
	r := t.finish(p)
	equal(t, "the exit code", r.exit.Code, 0)
	if !strings.HasSuffix(r.stdout, "end\r\n") {
		t.Errorf("the terminal ends with %s", clip(r.stdout))
	}
}

func ttyEOFLate(t *T) {
	want := "prompt\r\nend\r\n"
	equal(t, "the terminal", t.ended(t.sh("$PROG prompt 300ms && $PROG prompt 0s && cat && cat")).Stdout.String(), want+want)
}

func ttyEOFShell(t *T) {
	t.ended(corral.Command{Args: []string{"sh", "-i"}})
}

// ended is cmd on a terminal without input, which must end by itself.
func (t *T) ended(cmd corral.Command) runner.Result {
	t.Helper()
	cmd = onTTY(cmd)
	cmd.ID = corral.NewID()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), t.Target.patience)
		defer cancel()
		if p, err := t.X.Attach(ctx, cmd.ID); err == nil { // else it did not start
			t.dispose(p)
		}
	})
	r, err := runner.Run(t.Ctx, t.X, cmd, runner.Options{})
	if err != nil || !r.Exit.Success() {
		t.Fatalf("%s: %v, %v\n%s", brief(cmd), r.Exit, err, clip(r.Stdout.String()))
	}
	return r
}

func ttyLastBytes(t *T) {
	want := strings.Repeat("y", 3000)
	for range max(t.scaled(30), 5) {
		equal(t, "the terminal", t.ok(onTTY(t.sh("printf %%s %s; exit 0", want))), want)
	}
}

func ttyLarge(t *T) {
	n := t.scaled(4 << 20)
	want := make([]byte, n)
	pattern.FillText(want, 5, 0)
	got := t.ok(onTTY(t.prog("text", fmt.Sprint(n), "5")))
	equal(t, "the number of bytes", len(got), n)
	equal(t, "the output is what was written", got == string(want), true)
}

func ttyDaemon(t *T) {
	p := t.start(onTTY(t.daemon("d-"+corral.NewID(), t.dir(), keepEnv, holdOutput, leave)))
	t.await(p, 0, "ready\r\n")
	t.returnsSoon(p)
	t.signalLeftovers(p)
}
