// Package script runs small POSIX shell scripts by an Executor, and reports their
// failures as errors of package io/fs. It is for work on files that this machine
// cannot see.
//
// A script runs in any POSIX shell with the usual programs (those of busybox are
// enough). Its output is untrusted and bounded, and a script that does not end is
// killed.
package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/runner"
)

// Exit codes of scripts for common failures.
const (
	ExitAbsent = 91 // fs.ErrNotExist
	ExitExists = 92 // fs.ErrExist
	ExitKind   = 93 // fs.ErrInvalid: not the kind of file that is wanted
)

// A Runner runs scripts in a directory. It may be used by any goroutine.
type Runner struct {
	Exec  corral.Executor
	Dir   string        // absolute, where commands run
	Limit time.Duration // of one script
}

// Output runs a script and returns its standard output; more than limit bytes are an error.
// A nil input means no input.
func (r Runner) Output(ctx context.Context, text string, input io.Reader, limit int, args ...string) ([]byte, error) {
	out := limited{max: limit}
	err := r.run(ctx, text, input, &out, nil, args)
	if err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Feed runs a script that reads input, of any length, and writes nothing.
func (r Runner) Feed(ctx context.Context, text string, input io.Reader, args ...string) error {
	return r.run(ctx, text, input, io.Discard, nil, args)
}

const (
	blocks = 64 // blocks of 64 KiB in a piece of a stream
	pieces = 2  // pieces in transit at a time
)

// paced runs %s, and writes its output in pieces. Each piece waits for a line of standard
// input, since a log is bounded and drops output that is not read in time. After each
// piece it writes a byte 1 to standard error. dd writes the result of each read at once,
// so nothing is left in a buffer between two pieces.
const paced = `exec 3<&0 5>&1
st=$( { { ( %s
); echo $? >&4; } </dev/null 3<&- 5>&- | while read -r _ <&3; do
	n=$(LC_ALL=C dd bs=65536 count=%d 2>&1 >&5 3<&- 4>&-)
	case $n in "0+0 records in"*) break ;; esac
	printf '\001' >&2
done; } 4>&1 >/dev/null)
exit "$st"`

// Stream runs a script and copies its standard output, of any length, to w.
func (r Runner) Stream(ctx context.Context, text string, w io.Writer, args ...string) error {
	grants := newGrants()
	defer close(grants.done)
	return r.run(ctx, fmt.Sprintf(paced, text, blocks), grants, w, grants, args)
}

// grants is the input of a paced script: a line for each piece that it may write. It also
// reads the script's standard error, which marks the end of each piece.
type grants struct {
	more chan struct{}
	done chan struct{}
}

func newGrants() *grants {
	// A hostile script may claim more pieces than it was granted; more bounds them.
	g := &grants{more: make(chan struct{}, 16*pieces), done: make(chan struct{})}
	for range pieces {
		g.more <- struct{}{}
	}
	return g
}

func (g *grants) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	select {
	case <-g.more:
		p[0] = '\n'
		return 1, nil
	case <-g.done:
		return 0, io.EOF
	}
}

func (g *grants) Write(p []byte) (int, error) {
	for range bytes.Count(p, []byte{1}) {
		turn.Offer(g.more, struct{}{})
	}
	return len(p), nil
}

func (r Runner) run(ctx context.Context, text string, input io.Reader, stdout, stderr io.Writer, args []string) error {
	cmd := corral.Command{
		Args: append([]string{"sh", "-c", text, "sh"}, args...), Dir: r.Dir, Timeout: r.Limit,
		Env: map[string]string{"LC_ALL": "C"},
	}
	res, err := runner.Run(ctx, r.Exec, cmd, runner.Options{Stdin: input, Stdout: stdout, Stderr: stderr, MaxOutput: 4096})
	if res.Info.ID != "" {
		// If the script failed, that error matters more than one of forget.
		if ferr := r.forget(context.WithoutCancel(ctx), res.Info.ID); err == nil {
			err = ferr
		}
	}
	if err != nil {
		return err
	}
	if res.Exit.Success() {
		if res.Gap > 0 {
			return fmt.Errorf("%d bytes of output were lost", res.Gap)
		}
		return nil
	}
	return failure(res)
}

// errnos are the errors that are recognized in a program's message.
var errnos = []syscall.Errno{
	syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EXDEV,
	syscall.ENOTEMPTY, syscall.EMLINK, syscall.ENOENT, syscall.ENOTDIR, syscall.EISDIR, syscall.EEXIST,
	syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EFBIG,
}

// failure is the error of a script that failed.
func failure(res runner.Result) error {
	switch res.Exit.Code {
	case ExitAbsent:
		return fs.ErrNotExist
	case ExitExists:
		return fs.ErrExist
	case ExitKind:
		return fs.ErrInvalid
	}
	text := strings.TrimSpace(strings.ReplaceAll(res.Stderr.String(), "\x01", ""))
	for _, e := range errnos {
		if strings.Contains(strings.ToLower(text), e.Error()) {
			return said(cut(text), e)
		}
	}
	return fmt.Errorf("%v: %s", res.Exit, cut(text))
}

// A saidError is an error with the text of a program's message.
type saidError struct {
	text string
	err  error
}

func (e saidError) Error() string { return e.text }
func (e saidError) Unwrap() error { return e.err }

// said is err with a program's message, without repeating the text of err.
func said(text string, err error) error {
	switch {
	case strings.EqualFold(text, err.Error()):
		return err
	case strings.Contains(strings.ToLower(text), err.Error()):
		return saidError{text, err}
	}
	return fmt.Errorf("%s: %w", text, err) // the message was cut off before err's text
}

// cut is the beginning of a program's output, in one line.
func cut(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(words.StripANSI(text)), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}

// forgetLimit bounds the removal of a script's log.
const forgetLimit = 30 * time.Second

// forget removes the log of a script that has ended.
func (r Runner) forget(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, forgetLimit)
	defer cancel()
	p, err := r.Exec.Attach(ctx, id)
	if errors.Is(err, corral.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.Remove(ctx)
}

// limited is a buffer that takes no more than max bytes.
type limited struct {
	bytes.Buffer
	max int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.max {
		return 0, fmt.Errorf("more than %d bytes", l.max)
	}
	return l.Buffer.Write(p)
}
