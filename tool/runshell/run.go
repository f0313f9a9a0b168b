package runshell

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/runner"
)

// markers are the variables that tell a script which tool runs it.
var markers = map[pathenv.Profile]string{pathenv.ProfileQwen: "QWEN_CODE", pathenv.ProfileAsimi: "ASIMI_CLI"}

// lookFor is how long the tool watches a new command in the background. If it ends at
// once, such as a server whose port is taken, the result shows how it ended.
const lookFor = 200 * time.Millisecond

// closingTime bounds the work after the end of the call or the command.
const closingTime = 10 * time.Second

// command is the command for the executor.
func (t *Tool) command(in Input, dir string) corral.Command {
	cmd := corral.Command{
		Args: []string{"bash", "-c", in.Command}, Dir: dir, Env: map[string]string{markers[t.cfg.Profile]: "1"}, Grace: t.cfg.Grace,
		Description: in.About(), Host: t.cfg.Host, Node: t.cfg.Node, Elevated: t.cfg.Elevated,
	}
	if !in.IsBackground {
		cmd.Timeout = t.cfg.Timeout
	}
	return cmd
}

func (t *Tool) run(ctx context.Context, in Input, dir string) (Output, error) {
	o := Output{Command: in.Command, Directory: in.Directory}
	cmd := t.command(in, dir)
	if err := cmd.Validate(); err != nil {
		return Output{}, invalid(err)
	}
	if ctx.Err() != nil {
		o.cancelled("start")
		return o, nil
	}
	if in.IsBackground {
		return t.background(ctx, cmd, o)
	}
	res, err := runner.Run(ctx, t.cfg.Executor, cmd, runner.Options{MaxOutput: t.cfg.MaxOutput / 2})
	if res.Info.ID == "" { // it was not started
		return t.notStarted(ctx, o, err)
	}
	o.started(res.Info)
	o.wrote(res.Excerpts)
	switch {
	case err == nil:
		t.ended(&o, res.Info, res.Exit)
	case ctx.Err() != nil && !errors.Is(err, corral.ErrLost):
		o.ended(res.Exit)
		o.cancelled("complete")
	default:
		if res.Exit.Reason != "" {
			o.ended(res.Exit)
		}
		o.fail(err)
	}
	if o.Error == nil && len(o.BackgroundPIDs) == 0 && !o.Truncated {
		t.forget(ctx, &o)
	}
	return o, nil
}

// background starts a command, and leaves it running.
func (t *Tool) background(ctx context.Context, cmd corral.Command, o Output) (Output, error) {
	p, err := t.cfg.Executor.Start(ctx, cmd)
	if err != nil {
		return t.notStarted(ctx, o, err)
	}
	o.started(p.Info())
	look, cancel := context.WithTimeout(ctx, lookFor)
	exit, err := p.Wait(look)
	cancel()
	// The call may be over, but its result still has to be read.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	switch {
	case err == nil:
		t.ended(&o, p.Info(), exit)
	case errors.Is(err, corral.ErrLost):
		o.fail(err)
	default: // it still runs
		o.ExitCode = new(int)
		if o.PID != nil {
			o.BackgroundPIDs = []int{*o.PID}
		}
	}
	st, err := p.Log().Stat(ctx)
	if err == nil {
		var out runner.Excerpts
		out, err = runner.ReadExcerpts(ctx, p.Log(), 0, st.Size, t.cfg.MaxOutput/2, false)
		o.wrote(out)
	}
	if err != nil {
		o.Warnings = append(o.Warnings, "What it has written so far cannot be read: "+err.Error()+".")
	}
	return o, nil
}

// notStarted is the result of a command that the executor did not start.
func (t *Tool) notStarted(ctx context.Context, o Output, err error) (Output, error) {
	switch {
	case errors.Is(err, corral.ErrDenied):
		return Output{}, err
	case errors.Is(err, corral.ErrInvalid), errors.Is(err, corral.ErrDir):
		return Output{}, invalid(err)
	case ctx.Err() != nil && !errors.Is(err, corral.ErrLost):
		o.cancelled("start")
	default:
		o.fail(err)
	}
	return o, nil
}

// ended fills in how a command ended by itself.
func (t *Tool) ended(o *Output, info corral.Info, exit corral.Exit) {
	o.ended(exit)
	switch {
	case exit.Reason == corral.ReasonTimeout:
		o.failed(fmt.Sprintf("Command timed out after %dms before it could complete.", t.cfg.Timeout.Milliseconds()))
	case exit.Reason == corral.ReasonOOM:
		o.failed("Command was killed because there was no memory left.")
	case info.PID == 0 && (exit.Code == 126 || exit.Code == 127) && strings.HasPrefix(o.Stderr, "corral: "):
		// No process was made, so there is no bash.
		o.fail(corral.Errorf(corral.ErrUnavailable, "install bash where commands run", "bash could not be started: %s", strings.TrimSpace(strings.TrimPrefix(o.Stderr, "corral: "))))
	}
}

// forget removes a command whose result has everything.
func (t *Tool) forget(ctx context.Context, o *Output) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	p, err := t.cfg.Executor.Attach(ctx, o.SessionID)
	if err == nil {
		err = p.Remove(ctx)
	}
	if err != nil && !errors.Is(err, corral.ErrNotFound) {
		t.cfg.Log.Warn("a command that has ended stays known", "id", o.SessionID, "error", err)
		return
	}
	o.SessionID = ""
}

func (o *Output) started(info corral.Info) {
	o.SessionID = info.ID
	if info.PID != 0 {
		o.PID = &info.PID
	}
	o.Notice = info.Notice
	o.Warnings = append(o.Warnings, info.Warnings...)
}

func (o *Output) ended(exit corral.Exit) {
	if exit.Signal != 0 {
		number := int(exit.Signal)
		o.Signal = &number
	} else if exit.Reason != "" {
		o.ExitCode = &exit.Code
	}
	o.BackgroundPIDs = exit.Orphans
}

func (o *Output) wrote(out runner.Excerpts) {
	o.Stdout, o.Stderr = out.Stdout.Plain(), out.Stderr.Plain()
	o.Truncated = out.Stdout.Omitted > 0 || out.Stderr.Omitted > 0
}

func (o *Output) cancelled(before string) {
	o.failed("Command was cancelled by user before it could " + before + ".")
}
