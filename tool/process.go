package tool

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/session/keys"
)

// maxListed bounds a command in a list, and its description, in bytes.
const maxListed = 2000

// maxPattern bounds ProcessRequest.Pattern, in bytes.
const maxPattern = 4096

// Process does an action on a session of the agent. If ctx ends while it waits, the
// session goes on. All failures are in the result.
func (t *Tools) Process(ctx context.Context, req ProcessRequest) ProcessResult {
	return t.process(ctx, req, nil)
}

func (t *Tools) process(ctx context.Context, req ProcessRequest, warnings []string) ProcessResult {
	r := &ProcessResult{Action: req.Action, Status: StatusCompleted, Warnings: append([]string{}, warnings...)}
	action, err := choice("action", req.Action, actions...)
	switch {
	case t.allowed(ProcessName) != nil:
		err = corral.Errorf(corral.ErrDenied, "run the command with exec; it waits for the end", "the tool %s is denied", ProcessName)
	case err != nil:
		err = corral.Errorf(corral.ErrInvalid, corral.Hint(err), "Unknown action %s", cut(string(req.Action)))
	case action == "":
		err = corral.Errorf(corral.ErrInvalid, "use one of the actions: "+words.List(actions), "action is required.")
	case action == ActionList:
		r.Action = action
		t.list(ctx, r)
		return *r
	case req.SessionID == "":
		err = corral.Errorf(corral.ErrInvalid, "", "sessionId is required for this action.")
	default:
		r.Action, req.Action, r.SessionID = action, action, req.SessionID
		err = t.act(ctx, req, r)
	}
	if err != nil {
		r.fail(ctx, err)
	}
	return *r
}

// fail makes r the result of an action that failed.
func (r *ProcessResult) fail(ctx context.Context, err error) {
	r.Status, r.Reason = Outcome(ctx, err)
	if r.Status == StatusUnknown {
		// The session is known, only the outcome of the action is not.
		r.Status = StatusFailed
	}
	r.Error, r.Hint = err.Error(), corral.Hint(err)
}

// act does an action on one session.
func (t *Tools) act(ctx context.Context, req ProcessRequest, r *ProcessResult) error {
	s, err := t.cfg.Agent.Find(ctx, req.SessionID)
	if errors.Is(err, corral.ErrNotFound) {
		return notFound(req, "")
	}
	if err != nil {
		return err
	}
	switch req.Action {
	case ActionPoll:
		err = t.poll(ctx, s, req, r)
	case ActionLog:
		err = t.log(ctx, s, req, r)
	case ActionWait:
		err = t.wait(ctx, s, req, r)
	case ActionAttach:
		err = t.attach(ctx, s, r)
	case ActionKill:
		err = t.kill(ctx, s, r)
	case ActionClear, ActionRemove:
		err = t.forget(ctx, s, r)
	default:
		err = t.input(ctx, s, req, r)
	}
	if errors.Is(err, corral.ErrNotFound) { // it was removed meanwhile, or never began
		return notFound(req, corral.Hint(err))
	}
	return err
}

// notFound is the error if there is no such session, or not in the state that the action
// needs.
func notFound(req ProcessRequest, hint string) error {
	which := ""
	switch req.Action {
	case ActionWrite, ActionSendKeys, ActionSubmit, ActionPaste, ActionResize, ActionKill:
		which = "active "
	case ActionClear:
		which = "finished "
	}
	return corral.Errorf(corral.ErrNotFound, hint, "No %ssession found for %s", which, cut(req.SessionID))
}

func (t *Tools) list(ctx context.Context, r *ProcessResult) {
	r.SessionList = &SessionList{Sessions: []SessionEntry{}}
	now := time.Now()
	for _, st := range t.cfg.Agent.List(ctx) {
		end := exitOf(st)
		command, _ := bounded(st.Command, maxListed)
		description, _ := bounded(st.Description, maxListed)
		r.Sessions = append(r.Sessions, SessionEntry{
			SessionID: st.ID, Status: Status(st.State), Reason: Reason(st.Reason), Name: st.Name, Command: command, Description: description,
			PID: st.PID, Host: st.Host, Node: st.Node, Sandboxed: st.Sandboxed, Cwd: st.Dir, PTY: st.TTY,
			StartedAt: st.StartedAt, EndedAt: st.EndedAt, RuntimeMs: st.Duration(now).Milliseconds(), Background: st.Background,
			ExitStatus:  end.ExitStatus,
			OutputBytes: st.OutputBytes, Truncated: st.OmittedBytes > 0, WaitingForInput: st.WaitingForInput, Unreachable: st.Unreachable,
		})
	}
}

// describe fills in the fields that every result of a session has.
func (r *ProcessResult) describe(st session.Status) {
	r.Status, r.Reason, r.SessionID, r.Name = Status(st.State), Reason(st.Reason), st.ID, st.Name
	if st.Ended() {
		end := exitOf(st)
		r.SessionEnd = &end
	}
	if st.Unreachable {
		r.Warnings = append(r.Warnings, "Where the session runs cannot be reached now; this is what was known last.")
	}
	if st.Detail != "" {
		r.Warnings = append(r.Warnings, st.Detail)
	}
}

func (r *ProcessResult) show(st session.Status, output string, truncated bool) {
	r.SessionOutput = &SessionOutput{
		Output: output, Truncated: truncated,
		OutputBytes: st.OutputBytes, OmittedBytes: st.OmittedBytes, WaitingForInput: st.WaitingForInput,
	}
}

func (t *Tools) poll(ctx context.Context, s *session.Session, req ProcessRequest, r *ProcessResult) error {
	timeout, err := waitTime(req, 0, MaxPoll, r)
	if err != nil {
		return err
	}
	defer watch(ctx, s)()
	p, err := s.Poll(ctx, session.PollOptions{Timeout: timeout, Max: min(session.DefaultPollBytes, t.cfg.MaxOutput/2)})
	if err != nil {
		return err
	}
	r.describe(p.Status)
	r.show(p.Status, p.Output.Plain(), p.Output.Omitted > 0)
	r.RetryInMs = p.RetryIn.Milliseconds()
	return nil
}

func (t *Tools) log(ctx context.Context, s *session.Session, req ProcessRequest, r *ProcessResult) error {
	for _, n := range []struct {
		name  string
		value *int
	}{{"offset", req.Offset}, {"limit", req.Limit}} {
		if n.value != nil && *n.value < 0 {
			return corral.Errorf(corral.ErrInvalid, "lines are counted from 0", "%s: %d is negative", n.name, *n.value)
		}
	}
	lines, err := s.Lines(ctx, session.LinesOptions{Offset: req.Offset, Limit: req.Limit})
	if err != nil {
		return err
	}
	st := s.Status(ctx)
	r.describe(st)
	text, cut := bounded(words.StripANSI(lines.Text), t.cfg.MaxOutput)
	cut = cut || lines.Cut
	st.OutputBytes, st.OmittedBytes = lines.OutputBytes, lines.OmittedBytes
	r.show(st, text, cut)
	r.LogPage = &LogPage{Offset: lines.From, Lines: lines.Count, TotalLines: lines.Total, Default: lines.Default}
	return nil
}

func (t *Tools) wait(ctx context.Context, s *session.Session, req ProcessRequest, r *ProcessResult) error {
	timeout, err := waitTime(req, DefaultWait, MaxWait, r)
	if err != nil {
		return err
	}
	until, err := choice("until", req.Until, UntilExit, UntilOutput, UntilPattern)
	if err != nil {
		return err
	}
	if until == "" && req.Pattern != "" {
		until = UntilPattern
	}
	o := session.WaitOptions{Output: until == UntilOutput, Timeout: max(timeout, time.Millisecond)} // 0 would be the longest
	if until == UntilPattern {
		if o.Pattern, err = pattern(req.Pattern); err != nil {
			return err
		}
	}
	defer watch(ctx, s)()
	w, err := s.WaitFor(ctx, o)
	if err != nil {
		return err
	}
	r.describe(w.Status)
	tail, err := s.Tail(ctx, tailBytes)
	if err != nil {
		return err
	}
	text := lastChars(words.StripANSI(tail), TailChars)
	r.show(w.Status, text, int64(len(tail)) < w.Status.OutputBytes || len(text) < len(tail))
	match, _ := bounded(words.StripANSI(w.Match), TailChars)
	r.WaitEnd = &WaitEnd{Met: string(w.Met), Match: match}
	return nil
}

func pattern(text string) (*regexp.Regexp, error) {
	switch {
	case text == "":
		return nil, corral.Errorf(corral.ErrInvalid, "give a regular expression", "pattern is required to wait for one.")
	case len(text) > maxPattern:
		return nil, corral.Errorf(corral.ErrInvalid, fmt.Sprintf("give at most %d bytes", maxPattern), "pattern: it has %d bytes", len(text))
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "give a regular expression in RE2 syntax", "pattern: %w", err)
	}
	return re, nil
}

// waitTime is how long a call waits.
func waitTime(req ProcessRequest, otherwise, limit time.Duration, r *ProcessResult) (time.Duration, error) {
	if req.Timeout == nil {
		return otherwise, nil
	}
	d := time.Duration(*req.Timeout) * time.Millisecond
	switch {
	case d < 0:
		return 0, corral.Errorf(corral.ErrInvalid, "give milliseconds from 0", "timeout: %d is negative", *req.Timeout)
	case d > limit:
		r.Warnings = append(r.Warnings, fmt.Sprintf("A %s waits for %d ms at most.", req.Action, limit.Milliseconds()))
		return limit, nil
	}
	return d, nil
}

func (t *Tools) attach(ctx context.Context, s *session.Session, r *ProcessResult) error {
	if t.cfg.AttachPath == nil {
		return corral.Errorf(errors.ErrUnsupported, "use poll, log and write", "sessions cannot be attached to here: no API is served")
	}
	r.describe(s.Status(ctx))
	r.Stream = &Stream{Path: t.cfg.AttachPath(s.ID())}
	return nil
}

func (t *Tools) kill(ctx context.Context, s *session.Session, r *ProcessResult) error {
	st, err := s.Kill(ctx)
	if errors.Is(err, corral.ErrEnded) {
		return notFound(ProcessRequest{Action: ActionKill, SessionID: s.ID()}, "it has ended; read it with poll or log")
	}
	if err != nil {
		return err
	}
	r.describe(st)
	return nil
}

// forget does the actions clear and remove.
func (t *Tools) forget(ctx context.Context, s *session.Session, r *ProcessResult) error {
	st := s.Status(ctx)
	if r.Action == ActionRemove {
		if err := s.Discard(ctx); err != nil {
			return err
		}
		if !st.Ended() {
			st.State, st.Reason = session.Failed, session.ReasonKilled
		}
		r.Status, r.Reason, r.Name = Status(st.State), Reason(st.Reason), st.Name
		return nil
	}
	err := s.Clear(ctx)
	if errors.Is(err, corral.ErrRunning) {
		return notFound(ProcessRequest{Action: ActionClear, SessionID: s.ID()}, "it is running; kill it first, or use remove")
	}
	r.Status, r.Reason, r.Name = Status(st.State), Reason(st.Reason), st.Name
	return err
}

// inputLimit is how long a command may take to read its input.
const inputLimit = 30 * time.Second

var errNotRead = errors.New("the command does not read its input")

// input does the actions that type or write something.
func (t *Tools) input(ctx context.Context, s *session.Session, req ProcessRequest, r *ProcessResult) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.inputLimit, errNotRead)
	defer cancel()
	var n int
	var warnings []string
	var err error
	given := s.Ask(ctx)
	switch req.Action {
	case ActionWrite:
		n, err = write(ctx, s, req)
	case ActionSendKeys:
		if req.Literal == "" && len(req.Hex) == 0 && len(req.Keys) == 0 {
			return corral.Errorf(corral.ErrInvalid, "", "No key data provided.")
		}
		n, warnings, err = s.SendKeys(ctx, keys.Request{Literal: req.Literal, Hex: req.Hex, Keys: req.Keys})
	case ActionSubmit:
		n, err = len(keys.Submit), s.Submit(ctx)
	case ActionPaste:
		if req.Text == "" {
			return corral.Errorf(corral.ErrInvalid, "", "No paste text provided.")
		}
		n, warnings, err = s.Paste(ctx, req.Text, req.Bracketed == nil || *req.Bracketed)
	case ActionResize:
		return resize(ctx, s, req, r)
	default:
		return fmt.Errorf("no code for action %s", req.Action)
	}
	if err == nil {
		given()
	}
	r.Warnings = append(r.Warnings, warnings...)
	r.BytesWritten = &n
	st := s.Status(context.WithoutCancel(ctx))
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errNotRead):
		return corral.Errorf(corral.ErrUnavailable, "see with poll what it is doing",
			"%w: session %s took %d bytes in %s", errNotRead, s.ID(), n, seconds(t.inputLimit))
	case errors.Is(err, corral.ErrEnded), err != nil && st.Ended():
		return notFound(req, "it has ended; read it with poll or log")
	case errors.Is(err, corral.ErrStdinClosed):
		return corral.Errorf(corral.ErrStdinClosed, "start the command with background=true or pty=true to write to it", "Session %s stdin is not writable.", s.ID())
	case err != nil:
		return err
	}
	r.describe(st)
	r.closed = req.Action == ActionWrite && req.EOF
	return nil
}

func write(ctx context.Context, s *session.Session, req ProcessRequest) (int, error) {
	if req.Data == "" && !req.EOF {
		return 0, corral.Errorf(corral.ErrInvalid, "give data, or eof=true", "No data provided.")
	}
	n := 0
	if req.Data != "" {
		var err error
		if n, err = s.Write(ctx, []byte(req.Data)); err != nil {
			return n, err
		}
	}
	if req.EOF {
		return n, s.CloseStdin(ctx)
	}
	return n, nil
}

func resize(ctx context.Context, s *session.Session, req ProcessRequest, r *ProcessResult) error {
	for _, n := range []struct {
		name  string
		value *int
	}{{"rows", req.Rows}, {"cols", req.Cols}} {
		if n.value == nil || *n.value < 1 || *n.value > maxCells {
			return corral.Errorf(corral.ErrInvalid, fmt.Sprintf("give rows and cols, each from 1 to %d", maxCells), "%s is missing or no size of a terminal", n.name)
		}
	}
	size := corral.Size{Rows: uint16(*req.Rows), Cols: uint16(*req.Cols)}
	err := s.Resize(ctx, size)
	st := s.Status(ctx)
	switch {
	case errors.Is(err, corral.ErrEnded), err != nil && st.Ended():
		return notFound(req, "it has ended; read it with poll or log")
	case errors.Is(err, errors.ErrUnsupported):
		return corral.Errorf(errors.ErrUnsupported, "start the command with pty=true", "Session %s has no terminal.", s.ID())
	case err != nil:
		return err
	}
	r.describe(st)
	r.size = &size
	return nil
}
