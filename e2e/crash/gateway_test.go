//go:build e2e

package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/exectest/pattern"
)

// A script is what a gateway of these tests does in its life.
type script struct {
	Place place
	Tasks []task
}

// A task is what it does about one command.
type task struct {
	Cmd    corral.Command
	Attach bool // else Start, which starts nothing that was started before

	Seed   uint64 // of the pattern that it prints; 0: it prints none
	Follow int64  // offset to read and check the output from, in that case
	Lines  int    // number of the first line to write to it; 0: write none
}

// An event is what a gateway tells of it, one JSON object a line.
type event struct {
	What  string // started, ended, line, failed or ready
	ID    string
	Info  corral.Info
	Exit  corral.Exit
	Line  int
	Error string
}

var telling sync.Mutex

func tell(e event) {
	telling.Lock()
	defer telling.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(e); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// gateway does the script on standard input until it is killed.
func gateway() {
	in := json.NewDecoder(os.Stdin)
	var sc script
	if err := in.Decode(&sc); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
	x, _, err := sc.Place.open(os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
	var starting sync.WaitGroup
	for _, t := range sc.Tasks {
		starting.Go(func() {
			p, err := t.begin(x)
			if err != nil {
				tell(event{What: "failed", ID: t.Cmd.ID, Error: err.Error()})
				return
			}
			tell(event{What: "started", ID: t.Cmd.ID, Info: p.Info()})
			go t.do(p)
		})
	}
	starting.Wait()
	tell(event{What: "ready"})
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test that started us is gone
	os.Exit(0)
}

func (t task) begin(x corral.Executor) (corral.Process, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if t.Attach {
		return x.Attach(ctx, t.Cmd.ID)
	}
	return x.Start(ctx, t.Cmd)
}

func (t task) do(p corral.Process) {
	failed := func(what string, err error) {
		if err != nil {
			tell(event{What: "failed", ID: t.Cmd.ID, Error: what + ": " + err.Error()})
		}
	}
	if t.Seed != 0 {
		go func() {
			_, err := t.follow(context.Background(), p.Log(), t.Follow)
			failed("follow", err)
		}()
	}
	if t.Lines != 0 {
		go func() {
			failed("write", writeLines(context.Background(), p, t.Lines, func(n int) { tell(event{What: "line", ID: t.Cmd.ID, Line: n}) }))
		}()
	}
	exit, err := p.Wait(context.Background())
	if err != nil {
		failed("wait", err)
		return
	}
	tell(event{What: "ended", ID: t.Cmd.ID, Exit: exit})
}

// fill is what the command prints at an offset.
func (t task) fill(p []byte, off int64) {
	if t.Cmd.TTY != nil {
		pattern.FillText(p, t.Seed, off)
		return
	}
	pattern.Fill(p, t.Seed, off)
}

// follow reads output from off to its end, and returns how many bytes there
// were. Each must be what the command printed there.
func (t task) follow(ctx context.Context, log corral.Log, off int64) (n int64, err error) {
	buf, want := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		c, err := log.Read(ctx, off, buf)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if c.Offset < off || c.Stream != corral.Stdout {
			return n, fmt.Errorf("read from %d: %s at %d", off, c.Stream, c.Offset)
		}
		t.fill(want[:len(c.Data)], c.Offset)
		for i, b := range c.Data {
			if b != want[i] {
				return n, fmt.Errorf("byte %d is %#x, not %#x (read from %d, chunk at %d of %d bytes)", c.Offset+int64(i), b, want[i], off, c.Offset, len(c.Data))
			}
		}
		n += int64(len(c.Data))
		off = c.Next()
	}
}

// line is a line that can be told from every other, and from a part of it. Some
// are larger than what a pipe takes at once.
func line(n int) string {
	body := make([]byte, 50)
	if n%7 == 0 {
		body = make([]byte, 20_000)
	}
	pattern.FillText(body, uint64(n), 0)
	return fmt.Sprintf("<%d:%s:%d>", n, body, n)
}

// writeLines writes line after line, until the process ends, and says so of
// each that was taken. The first newline ends what an earlier life left
// unfinished.
func writeLines(ctx context.Context, p corral.Process, first int, wrote func(int)) error {
	if _, err := p.Write(ctx, []byte("\n")); err != nil {
		return err
	}
	for n := first; ; n++ {
		if _, err := p.Write(ctx, []byte(line(n)+"\n")); err != nil {
			return err
		}
		wrote(n)
		time.Sleep(3 * time.Millisecond)
	}
}
