package cli

import (
	"context"
	"errors"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/tool"
)

// exec runs the command that the command line asks for.
func (a commands) exec(ctx context.Context, o *execFlags, args []string, program bool) error {
	if o.background {
		return a.execBackground(ctx, o, args, program)
	}
	if !o.json {
		res, err := a.runCommand(ctx, o, args, program)
		if len(res.Exit.Refused) > 0 {
			a.Warn(res.Info.Enforced.Refusal(res.Exit.Refused))
		}
		return a.ending(o, res, err)
	}
	var warnings []string
	a.Kept, a.Quiet = &warnings, true
	began := time.Now()
	res, err := a.runCommand(ctx, o, args, program)
	res.Info.Warnings = warnings // among them those of the process
	result, end := NewResult(res, err, time.Since(began)), a.ending(o, res, err)
	if result.Reason == tool.ReasonTimeout || result.Reason == tool.ReasonOOM {
		result.Error, result.Hint = app.InFlags(end.Error()), app.InFlags(corral.Hint(end))
	}
	return a.PrintJSON(result, end)
}

// ending is the error that has the right exit code, and says what is not to be
// seen from the output.
func (a commands) ending(o *execFlags, res runner.Result, err error) error {
	exit := res.Exit
	switch {
	case err != nil:
		return err
	case res.Gap > 0 && !o.json:
		return corral.Errorf(corral.ErrUnavailable, "read it faster, or let the command write to a file",
			"%d bytes of the output are missing: they were read too late", res.Gap)
	case exit.Reason == corral.ReasonTimeout:
		exit.Reason = corral.ReasonExited // the rest of the sentence says the other
		return corral.Errorf(&app.ExitError{Code: app.ExitTimeout}, "give it more time with --timeout or CORRAL_TIMEOUT; 0 is no limit",
			"the command ran out of time after %v and was ended: %v", &o.timeout, exit)
	case exit.Reason == corral.ReasonOOM:
		code := exit.Code
		if exit.Signal != 0 {
			code = app.ExitSignal + int(exit.Signal)
		}
		exit.Reason = corral.ReasonExited // the rest of the sentence says the other
		return corral.Errorf(&app.ExitError{Code: code}, "give a sandbox more with --memory, or let the command use less",
			"the command was killed because there was no memory left: %v", exit)
	case exit.Signal != 0:
		return &app.ExitError{Code: app.ExitSignal + int(exit.Signal)}
	case exit.Code != 0:
		return &app.ExitError{Code: exit.Code}
	}
	return nil
}

func (a commands) runCommand(ctx context.Context, o *execFlags, args []string, program bool) (runner.Result, error) {
	cmd, err := a.command(o, args, program)
	if err != nil {
		return runner.Result{}, err
	}
	if err := a.Configure(o.agent); err != nil {
		return runner.Result{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	front := &foreground.Job{Streams: a.Streams(), Cancel: cancel}
	stop := front.ForwardSignals()
	defer stop()

	place, err := a.open(ctx, o, &cmd)
	if err != nil {
		return runner.Result{}, foreground.Interrupted(ctx, err)
	}
	front.Keep = o.id != ""
	// By then the result is known; an error here does not change it.
	defer func() {
		if err := place.Close(); err != nil {
			a.Warn("Not all was cleaned up: " + err.Error() + ".")
		}
	}()

	opt := runner.Options{MaxOutput: o.kept()}
	if !o.json {
		opt.Stdout, opt.Stderr = a.Stdout, a.Stderr
	}
	in := a.input(o)
	if in != nil {
		opt.Stdin = in
	}
	if o.pty {
		restore := front.OpenTerminal(&cmd)
		defer restore()
		if opt.Stdout != nil {
			opt.Stdout = front.Output(place.past(ctx, o.id))
		}
	}
	defer front.Remove()
	if place.gateway != nil {
		place.Executor = approving{place.Executor, a, o, place.gateway}
	}
	answers := foreground.Answers{}
	defer answers.Stop()
	begun := func(p corral.Process) {
		a.WarnAll(p.Info())
		front.Start(p)
		if place.gateway != nil && front.HasTerminal() {
			answers.Begin(ctx, p)
		}
	}
	ex := foreground.Telling{Executor: place, Tell: begun, Watch: o.id != "" && in == nil && cmd.TTY == nil}
	res, err := runner.Run(ctx, ex, cmd, opt)
	if place.gateway != nil && errors.Is(err, corral.ErrLost) {
		front.Keep = true // so that the user can look
		err = corral.Errorf(corral.ErrLost, "corral ps --all and corral logs "+cmd.ID+" show what came of it; corral kill "+cmd.ID+" ends it if it runs", "%w", err)
	}
	return res, foreground.Interrupted(ctx, o.aboutID(a.aboutDir(err, o.workdir, place.host)))
}

// A place is what a command runs on: a Router of this process, or a gateway.
type place struct {
	daemon.Executor
	host    corral.Host // where it leads; empty: not known
	gateway *client.Client
}

// past is how much output a session of that ID has already; nothing if it is new.
func (p place) past(ctx context.Context, id string) int64 {
	if p.gateway == nil || id == "" {
		return 0
	}
	session, err := p.gateway.Session(ctx, id)
	if err != nil {
		return 0 // there is none, or the start says what is wrong
	}
	stat, err := session.Log().Stat(ctx)
	if err != nil {
		return 0
	}
	return stat.Size - stat.Gap()
}

// open says where a command runs, and connects to it.
func (a commands) open(ctx context.Context, o *execFlags, cmd *corral.Command) (place, error) {
	c, host, err := a.viaGateway(ctx, o, cmd)
	if err != nil {
		return place{}, err
	}
	if c != nil {
		return place{daemon.Settled{Executor: c}, host, c}, nil
	}
	first, err := daemon.PathFirst(a.Defaults)
	if err != nil {
		return place{}, err
	}
	cmd.PathPrepend = slices.Concat(first, cmd.PathPrepend)
	if o.configured {
		cmd.Timeout = a.Defaults.Timeout.Value
		o.timeout = cmdline.Seconds(cmd.Timeout)
	}
	router, host, err := a.openRouter(o, *cmd)
	if err != nil {
		return place{}, err
	}
	return place{Executor: router, host: host}, nil
}

// aboutDir is err with a hint that fits where it concerns the working directory.
func (a commands) aboutDir(err error, dir string, host corral.Host) error {
	if dir == "" || !errors.Is(err, corral.ErrDir) {
		return err
	}
	s := &a.Settings
	if rel, rerr := filepath.Rel(s.Workspace.Dir, dir); host == corral.HostSandbox && s.Workspace.Access != "none" && s.Workspace.Dir != "" && filepath.IsAbs(dir) && rerr == nil && filepath.IsLocal(rel) {
		return corral.Errorf(corral.ErrDir, "inside the sandbox the workspace is "+sandbox.Workdir+": --workdir "+path.Join(sandbox.Workdir, filepath.ToSlash(rel)), "%w", err)
	}
	if strings.HasSuffix(err.Error(), "not a directory") {
		return corral.Errorf(corral.ErrDir, "give a directory as --workdir", "%w", err)
	}
	return err
}

// aboutID is err with a hint that fits where the ID is another command's.
func (o *execFlags) aboutID(err error) error {
	if o.id == "" || !errors.Is(err, corral.ErrConflict) {
		return err
	}
	return corral.Errorf(corral.ErrConflict, "to see that one: corral attach "+o.id+", or corral logs -f "+o.id+"; to start this one, give it another --id", "%w", err)
}

var _ io.Closer = (*corral.Router)(nil)
