package exectest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/exectest/pattern"
)

var stdinCases = []Case{
	{Name: "stdin/none", Doc: "A command started without Stdin reads end-of-file at once, and Write answers ErrStdinClosed.", Func: stdinNone},
	{Name: "stdin/eof", Doc: "What was written before CloseStdin is read, then end-of-file.", Func: stdinEOF},
	{Name: "stdin/open", Doc: "Without CloseStdin the command keeps waiting for more.", Func: stdinOpen},
	{Name: "stdin/close-twice", Doc: "Closing standard input twice is no error.", Func: stdinCloseTwice},
	{Name: "stdin/write-after-close", Doc: "Write after CloseStdin answers ErrStdinClosed.", Func: stdinWriteAfterClose},
	{Name: "stdin/write-after-exit", Doc: "Write after the command has ended answers ErrEnded.", Func: stdinWriteAfterExit},
	{Name: "stdin/nobody-reads", Doc: "Write answers ErrEnded, and does not block, when the command has closed its standard input.", Func: stdinNobodyReads},
	{Name: "stdin/exit-ends-write", Doc: "A Write that waits for a command which reads nothing answers ErrEnded when the command exits.", Func: stdinExitEndsWrite},
	{Name: "stdin/large", Doc: "10 MB of input arrive complete and unchanged.", Func: stdinLarge},
	{Name: "stdin/binary", Doc: "Input is binary: all byte values, and no character ends it.", Func: stdinBinary},
	{Name: "stdin/cancelled-write", Doc: "A Write that is cancelled while the command reads nothing returns exactly how much was handed over.", Func: stdinCancelledWrite},
	{Name: "stdin/backpressure", Doc: "A command that reads slowly slows Write down and gets every byte.", Func: stdinBackpressure},
	{Name: "stdin/concurrent-writes", Doc: "Writes from several goroutines are not mixed within one Write.", Func: stdinConcurrentWrites},
}

// withStdin is cmd with its standard input kept open.
func withStdin(cmd corral.Command) corral.Command {
	cmd.Stdin = true
	return cmd
}

func stdinNone(t *T) {
	equal(t, "what cat printed", t.ok(t.sh("cat")), "")
	equal(t, "what cat printed", t.ok(corral.Command{Args: []string{"cat"}}), "")
	p := t.start(t.prog("sleep"))
	_, err := p.Write(t.Ctx, []byte("x"))
	t.isError("Write", err, corral.ErrStdinClosed)
}

func stdinEOF(t *T) {
	p := t.start(withStdin(t.sh("cat; echo end")))
	t.write(p, "one\n")
	t.write(p, "two")
	t.closeStdin(p)
	equal(t, "the output", t.finish(p).all, "one\ntwoend\n")
}

func stdinOpen(t *T) {
	p := t.start(withStdin(t.sh("cat; echo end")))
	t.write(p, "one\n")
	t.await(p, 0, "one\n")
	ctx, cancel := context.WithTimeout(t.Ctx, 200*time.Millisecond)
	defer cancel()
	_, err := p.Wait(ctx)
	t.isError("Wait for cat, whose input is open", err, context.DeadlineExceeded)
	t.write(p, "two\n")
	t.closeStdin(p)
	equal(t, "the output", t.finish(p).all, "one\ntwo\nend\n")
}

func stdinCloseTwice(t *T) {
	p := t.start(withStdin(t.sh("cat")))
	t.closeStdin(p)
	t.closeStdin(p)
	equal(t, "the exit code", t.wait(p).Code, 0)
}

func stdinWriteAfterClose(t *T) {
	p := t.start(withStdin(t.sh("cat; sleep 20")))
	t.closeStdin(p)
	n, err := p.Write(t.Ctx, []byte("late"))
	t.isError("Write", err, corral.ErrStdinClosed)
	equal(t, "the number of bytes written", n, 0)
}

func stdinWriteAfterExit(t *T) {
	p := t.start(withStdin(t.sh("exit 3")))
	t.wait(p)
	n, err := p.Write(t.Ctx, []byte("late"))
	t.isError("Write", err, corral.ErrEnded)
	equal(t, "the number of bytes written", n, 0)
}

func stdinNobodyReads(t *T) {
	p := t.start(withStdin(t.sh("exec <&-; echo closed; exec sleep 20 <&-")))
	t.await(p, 0, "closed\n")
	// Some of it may be on its way when the command's end turns out closed.
	t.eventually("Write answers ErrEnded", func() bool {
		ctx, cancel := context.WithTimeout(t.Ctx, t.soon(2*time.Second))
		defer cancel()
		_, err := p.Write(ctx, []byte("nobody"))
		if err != nil && !errors.Is(err, corral.ErrEnded) {
			t.Fatalf("Write: %v", err)
		}
		return err != nil
	})
	t.isError("Remove, since the command goes on", p.Remove(t.Ctx), corral.ErrRunning)
}

func stdinExitEndsWrite(t *T) {
	p := t.start(withStdin(t.sh("echo up; sleep 0.3")))
	t.await(p, 0, "up\n")
	n, err := p.Write(t.Ctx, make([]byte, 32<<20))
	t.isError("Write", err, corral.ErrEnded)
	if n < 0 || n >= 32<<20 {
		t.Errorf("Write returned %d", n)
	}
	equal(t, "the exit code", t.wait(p).Code, 0)
}

func stdinLarge(t *T) {
	n := t.scaled(10_000_000)
	p := t.start(withStdin(t.prog("stdin")))
	data := make([]byte, n)
	pattern.Fill(data, 2, 0)
	t.write(p, string(data))
	t.closeStdin(p)
	equal(t, "what the command read", t.finish(p).stdout, fmt.Sprintf("ready\n%d %x\n", n, sha256.Sum256(data)))
}

func stdinBinary(t *T) {
	data := make([]byte, 0, 512)
	for i := range 512 {
		data = append(data, byte(i))
	}
	p := t.start(withStdin(corral.Command{Args: []string{"cat"}}))
	t.write(p, string(data))
	t.closeStdin(p)
	equal(t, "the output", t.finish(p).stdout, string(data))
}

func stdinCancelledWrite(t *T) {
	dir := t.dir()
	p := t.start(withStdin(t.prog("stdin", dir+"/go")))
	t.await(p, 0, "ready\n")
	data := make([]byte, 32<<20)
	pattern.Fill(data, 3, 0)
	var n int
	cancelled(t, "Write that nothing reads", func(ctx context.Context) (err error) {
		n, err = p.Write(ctx, data)
		return err
	})
	if n < 0 || n >= len(data) {
		t.Fatalf("Write returned %d of %d", n, len(data))
	}
	t.ok(t.sh("touch %s/go", dir))
	t.closeStdin(p)
	equal(t, "what the command read", t.finish(p).stdout, fmt.Sprintf("ready\n%d %x\n", n, sha256.Sum256(data[:n])))
}

func stdinBackpressure(t *T) {
	const n = 600_000
	p := t.start(withStdin(t.prog("stdin", "-", "20ms")))
	data := make([]byte, n)
	pattern.Fill(data, 4, 0)
	t.write(p, string(data))
	t.closeStdin(p)
	equal(t, "what the command read", t.finish(p).stdout, fmt.Sprintf("ready\n%d %x\n", n, sha256.Sum256(data)))
}

func stdinConcurrentWrites(t *T) {
	const writers, each = 8, 50
	p := t.start(withStdin(t.sh("cat")))
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			line := strings.Repeat(string(rune('a'+w)), 999) + "\n"
			for range each {
				if _, err := p.Write(t.Ctx, []byte(line)); err != nil {
					t.Errorf("Write: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.closeStdin(p)
	lines := strings.Split(strings.TrimSuffix(t.finish(p).stdout, "\n"), "\n")
	equal(t, "the number of lines", len(lines), writers*each)
	for _, line := range lines {
		if line != strings.Repeat(line[:1], 999) {
			t.Fatalf("mixed line: %s", clip(line))
		}
	}
}
