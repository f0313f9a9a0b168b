//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/readahead"
)

// A job is a command to run, and how much goes in and out.
type job struct {
	shell  string   // text for a login shell
	args   []string // or a program and its arguments
	input  int64    // bytes to write to standard input
	output int64    // bytes it must write to standard output
	// sum is the SHA-256 of the output. If there is one, the output is read to
	// its end while it comes, and compared.
	sum []byte
}

func (j job) argv() []string {
	if len(j.args) > 0 {
		return j.args
	}
	return []string{"/bin/sh", "-lc", j.shell}
}

func (j job) String() string { return fmt.Sprintf("%q", j.argv()) }

// A place is somewhere jobs run: an executor of ours, or a reference.
type place struct {
	name string
	// A place that takes long to start a job gets fewer, and one that moves
	// data slowly gets less of it. Their results are far from those of the
	// others, and need not be as exact.
	slowStart, slowData bool
	// run returns how long j took from the moment it was asked for until
	// its exit status and its last byte of output were here. A job that
	// fails or has other output is an error.
	run func(ctx context.Context, j job) (time.Duration, error)
}

// pieceSize bounds a read of a log, of a local pipe and of what is written to standard
// input.
const pieceSize = 64 << 10

// local runs jobs by os/exec: what everything is compared to.
type local struct {
	root string // a directory to chroot into; empty: this machine's
	user *syscall.Credential
	env  []string
	dir  string
}

func (l local) run(ctx context.Context, j job) (time.Duration, error) {
	argv := j.argv()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = l.env, l.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: l.root, Credential: l.user}
	var stdout, stderr bytes.Buffer
	var count counter
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if j.output > 0 {
		cmd.Stdout = &count
	}
	if j.input > 0 {
		cmd.Stdin = &text{j.input}
	}
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("%v: %w: %s", j, err, stderr.Bytes())
	}
	return took, checkOutput(j, count.n.Load()+int64(stdout.Len()))
}

// text reads as so many bytes of text, which most input is.
type text struct{ left int64 }

var lines = bytes.Repeat([]byte("Plain text of 32 bytes a line.\r\n"), pieceSize/32)

func (t *text) Read(b []byte) (int, error) {
	if t.left == 0 {
		return 0, io.EOF
	}
	n := copy(b, lines[:min(t.left, pieceSize)])
	t.left -= int64(n)
	return n, nil
}

// feed writes n bytes as runner.Run and the gateway do.
func feed(ctx context.Context, p corral.Process, n int64) error {
	r := readahead.New((&text{n}).Read)
	defer r.Wait()
	defer r.Stop()
	for {
		data, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			_, err = p.Write(ctx, data)
		}
		if err != nil {
			return fmt.Errorf("cannot write standard input: %w", err)
		}
	}
}

func checkOutput(j job, got int64) error {
	if got != j.output {
		return fmt.Errorf("%v wrote %d bytes to standard output, not %d", j, got, j.output)
	}
	return nil
}

// counter takes output and throws it away, pieceSize at a time.
type counter struct{ n atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// ReadFrom is what os/exec copies with.
func (c *counter) ReadFrom(r io.Reader) (int64, error) {
	buf := make([]byte, pieceSize)
	total := int64(0)
	for {
		n, err := r.Read(buf)
		total += int64(n)
		c.n.Add(int64(n))
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// ours runs jobs on one of our executors.
type ours struct {
	ex corral.Executor
	// login is set where shell text does not go to a login shell.
	login bool
	// domain is what the kernel keeps the commands to; nil: to nothing.
	domain *corral.Domain
}

func (o ours) run(ctx context.Context, j job) (took time.Duration, err error) {
	cmd := corral.Command{Shell: j.shell, Stdin: j.input > 0, Domain: o.domain}
	if o.login || len(j.args) > 0 {
		cmd.Shell, cmd.Args = "", j.argv()
	}
	if j.sum != nil {
		cmd.Log.Head = j.output // nothing is to be left out
	}
	start := time.Now()
	// Not to be interrupted: what was started has to be removed.
	p, err := o.ex.Start(context.WithoutCancel(ctx), cmd)
	if err != nil {
		return 0, err
	}
	exit, err := finish(ctx, p, j)
	took = time.Since(start)
	if err != nil {
		return 0, errors.Join(err, discard(p))
	}
	stat, err := p.Log().Stat(ctx)
	if err == nil {
		err = checkOutput(j, stat.Size)
	}
	if !exit.Success() {
		err = fmt.Errorf("%v: %v", j, exit)
	}
	return took, errors.Join(err, p.Remove(context.WithoutCancel(ctx)))
}

func finish(ctx context.Context, p corral.Process, j job) (corral.Exit, error) {
	if j.input > 0 {
		if err := feed(ctx, p, j.input); err != nil {
			return corral.Exit{}, err
		}
		if err := p.CloseStdin(ctx); err != nil {
			return corral.Exit{}, err
		}
	}
	if j.sum != nil {
		sum := sha256.New()
		if err := copyLog(ctx, sum, p.Log()); err != nil {
			return corral.Exit{}, err
		}
		if err := checkSum(j, sum); err != nil {
			return corral.Exit{}, err
		}
	}
	return p.Wait(ctx)
}

// copyLog reads a log to its end.
func copyLog(ctx context.Context, w io.Writer, log corral.Log) error {
	buf := make([]byte, pieceSize)
	for off := int64(0); ; {
		c, err := log.Read(ctx, off, buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(c.Data); err != nil {
			return err
		}
		off = c.Next()
	}
}

func checkSum(j job, got hash.Hash) error {
	if sum := got.Sum(nil); !bytes.Equal(sum, j.sum) {
		return fmt.Errorf("%v: the output has the SHA-256 %x, not %x", j, sum, j.sum)
	}
	return nil
}

// discard kills a process that is of no use any more and removes it.
func discard(p corral.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), discardLimit)
	defer cancel()
	if err := p.Signal(ctx, corral.SIGKILL); err != nil && !errors.Is(err, corral.ErrEnded) {
		return err
	}
	if _, err := p.Wait(ctx); err != nil {
		return err
	}
	return p.Remove(ctx)
}

const discardLimit = 10 * time.Second
