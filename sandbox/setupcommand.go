package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/execdriver"
)

// SetupLimit is how long a setup command may run.
const SetupLimit = 10 * time.Minute

const (
	// maxSetupLog bounds what is kept of the beginning, and of the end, of a
	// setup command's output, in bytes.
	maxSetupLog = 512 << 10
	markerRoom  = 100 // bytes of the line between the two
	// What an error quotes of its end.
	quotedLines = 5
	quotedBytes = 1000
)

// setupDir is where the executor of a setup command works, in a box's directory.
const setupDir = "setup"

// setUp runs the setup command in a new box that nothing else uses yet. If it fails,
// the box is not to be used. If the container cannot be reached, the error is that
// of Reach.
//
// Nothing refers to the box yet: if this program is killed in the middle, the box
// is swept with its container, and the next one begins anew.
func (s *setup) setUp(ctx context.Context, b *box) (err error) {
	if s.SetupCommand == "" {
		return nil
	}
	x, err := s.setupExecutor(b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Join(b.dir, setupDir))) }()
	if w, ok := x.(*wardenexec.Executor); ok {
		if _, err := w.Reach(ctx); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	run := SetupRun{Started: time.Now().UTC().Truncate(time.Millisecond)}
	note := func() error {
		kept := run
		return noteLife(b.dir, func(l *life) { l.Setup = &kept })
	}
	log, err := runner.NewHeadTail(filepath.Join(b.dir, setupLogFile), maxSetupLog)
	if err == nil {
		err = note()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot keep the output of the setup command: %w", err), x.Close())
	}
	cmd := corral.Command{Shell: s.SetupCommand, MergeStderr: true, Timeout: SetupLimit}
	res, rerr := runner.Run(ctx, x, cmd, runner.Options{Stdout: log, MaxOutput: quotedBytes})
	now := time.Now().UTC().Truncate(time.Millisecond)
	run.Ended, run.Output = &now, res.Next
	run.Failed = rerr != nil || !res.Exit.Success()
	if rerr == nil {
		run.Exit = res.Exit.String()
	}
	err = errors.Join(log.Close(), note(), x.Close())
	if run.Failed {
		return errors.Join(s.setupFailed(b, res, rerr), err)
	}
	return err
}

type closingExecutor interface {
	corral.Executor
	io.Closer
}

// setupExecutor runs commands in a box and keeps no records of them.
func (s *setup) setupExecutor(b *box) (closingExecutor, error) {
	dir := filepath.Join(b.dir, setupDir)
	prepare := func(_ context.Context, cmd corral.Command) (pathenv.Plan, error) { return b.prepare(s, cmd) }
	if b.Driver != DriverExec {
		x, err := wardenexec.New(wardenexec.Options{
			Dir: dir, Ephemeral: true, Connect: b.connect, Untrusted: true, Prepare: prepare, Info: sandboxInfo, Log: b.log,
		})
		if err != nil {
			return nil, err
		}
		return x, nil
	}
	engine, ok := b.engine.(engine.ExecEngine)
	if !ok {
		return nil, corral.Errorf(errors.ErrUnsupported, "use the driver auto", "this engine has no exec API")
	}
	x, err := execdriver.New(execdriver.Options{
		Engine: engine, Kill: b.engine.Remove, Dir: dir, Info: sandboxInfo, Log: b.log,
		Enter: func(ctx context.Context, cmd corral.Command) (string, pathenv.Plan, error) {
			plan, err := prepare(ctx, cmd)
			return b.Ref(), plan, err
		},
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// setupFailed is the error of a start whose container could not be set up. No
// command ran, whatever became of the setup command.
func (s *setup) setupFailed(b *box, res runner.Result, err error) error {
	how := res.Exit.String()
	if err != nil {
		how = err.Error() // and not as a cause: that may be ErrLost
	} else if res.Exit.Reason == corral.ReasonTimeout {
		how = fmt.Sprintf("it was not done after %v, and was ended", SetupLimit)
	}
	if lines := lastLines(res.Output); lines != "" {
		how += ": " + lines
	}
	whose, hint := "the sandbox "+b.Sandbox, "corral sandbox logs "+b.Sandbox+" shows all that it wrote; correct sandbox.setupCommand"
	if b.Sandbox == "" {
		whose, hint = "a container of the pool", "correct sandbox.setupCommand"
	}
	return corral.Errorf(corral.ErrUnavailable, hint, "the setup command of %s failed: %s", whose, how)
}

// lastLines is the end of an output on one line.
func lastLines(e runner.Excerpt) string {
	text := e.Head
	if e.Omitted > 0 {
		text = e.Tail
	}
	var lines []string
	for line := range strings.Lines(words.StripANSI(text)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	lines = lines[max(0, len(lines)-quotedLines):]
	text = strings.Join(lines, " | ")
	return strings.ToValidUTF8(text[max(0, len(text)-quotedBytes):], "\uFFFD")
}
