// Package remote calls the tools of an agent at a running gateway over HTTP. They are the
// same tools as those of package tool in the gateway itself.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
)

// Tools are an agent's tools at a gateway.
type Tools struct {
	c     *client.Client
	model string
	list  []tool.Definition
	log   *slog.Logger
}

// New asks a gateway for its tools.
func New(ctx context.Context, c *client.Client, model string, log *slog.Logger) (Tools, error) {
	t := Tools{c: c, model: model, log: log}
	listed, err := c.Tools(ctx, model)
	if err != nil {
		return t, err
	}
	for _, d := range listed {
		def := tool.Definition{Name: d.Name, Title: d.Title, Description: d.Description}
		err := json.Unmarshal(d.InputSchema, &def.Input)
		if err == nil && d.OutputSchema != nil {
			err = json.Unmarshal(d.OutputSchema, &def.Output)
		}
		if err != nil {
			return t, fmt.Errorf("the gateway's description of the tool %s is not understood: %w", words.Short(d.Name, 60), err)
		}
		t.list = append(t.list, def)
	}
	return t, nil
}

// Definitions are the tools that the gateway had when New asked it.
func (t Tools) Definitions() []tool.Definition { return t.list }

// A result has the text and the JSON that the gateway returned.
type result struct{ called client.Called }

func (r result) Text() string                 { return r.called.Text }
func (r result) Failed() bool                 { return r.called.Failed }
func (r result) MarshalJSON() ([]byte, error) { return r.called.Result, nil }

// Call calls a tool of the gateway. If the gateway cannot be reached, the result says so,
// since a model has to read it.
func (t Tools) Call(ctx context.Context, name string, args json.RawMessage) (tool.Result, error) {
	switch name {
	case tool.ExecName:
		var req tool.ExecRequest
		warnings, err := tool.Decode(args, &req)
		if err != nil {
			return failedExec(ctx, err, warnings), nil
		}
		return t.exec(ctx, req, warnings), nil
	case tool.ProcessName:
		var req tool.ProcessRequest
		warnings, err := tool.Decode(args, &req)
		var r tool.ProcessResult
		if err == nil {
			r, err = t.c.Process(ctx, req)
		}
		if err != nil {
			r = tool.ProcessResult{Action: req.Action, Error: words.OneLine(err.Error()), Hint: words.OneLine(corral.Hint(err))}
			r.Status, r.Reason = tool.Outcome(ctx, err)
		}
		r.Warnings = append(warnings, r.Warnings...)
		if r.Warnings == nil {
			r.Warnings = []string{}
		}
		return r, nil
	}
	called, err := t.c.CallTool(ctx, name, t.model, args)
	if err != nil {
		return nil, err
	}
	return result{called}, nil
}

// failedExec is the result of a failed call of exec.
func failedExec(ctx context.Context, err error, warnings []string) tool.ExecResult {
	r := tool.ExecResult{Error: words.OneLine(err.Error()), Hint: words.OneLine(corral.Hint(err)), Warnings: append([]string{}, warnings...)}
	r.Status, r.Reason = tool.Outcome(ctx, err)
	if r.Status == tool.StatusDenied {
		r.Denial = &tool.Denial{Rule: r.Error, Allow: r.Hint}
	} else {
		r.Ended = &tool.Ended{}
	}
	return r
}

// exec gives the session an ID if the call has none. So the call can be repeated if the
// gateway was restarted meanwhile, without running the command again. If the caller chose
// no ID, the session is forgotten once the result has everything, as at the gateway.
func (t Tools) exec(ctx context.Context, req tool.ExecRequest, warnings []string) tool.ExecResult {
	chosen := req.SessionID != ""
	if !chosen {
		req.SessionID = session.NewID()
	}
	id := req.SessionID
	stop := tool.Watch(ctx, func(ctx context.Context) (tool.Progress, bool) { return t.look(ctx, id) })
	r, err := t.c.Exec(ctx, req)
	stop()
	if approve := tool.ApproverOf(ctx); err == nil && r.Status == tool.StatusApprovalPending && r.Approval != nil && approve != nil {
		id = r.SessionID // the approval may have been asked for earlier, with another ID
		r, err = t.approved(ctx, req, r, approve)
	}
	if err != nil {
		r = failedExec(ctx, err, warnings)
		if r.Status == tool.StatusUnknown {
			r.SessionID = id
		}
		return r
	}
	r.Warnings = append(warnings, r.Warnings...)
	if r.Warnings == nil {
		r.Warnings = []string{}
	}
	if !chosen && r.SessionID == id && r.Ended != nil && !r.Truncated && r.Status != tool.StatusUnknown {
		t.forget(ctx, id)
		r.SessionID = ""
	}
	return r
}

// approved asks a person here for the approval that a call needs, and repeats the call. It
// then gets the session that the gateway began after the answer.
func (t Tools) approved(ctx context.Context, req tool.ExecRequest, pending tool.ExecResult, approve tool.Approver) (tool.ExecResult, error) {
	rec, err := t.c.Approval(ctx, pending.ApprovalID)
	if err == nil {
		rec, err = t.c.AwaitApproval(ctx, rec, approve)
	}
	switch {
	case ctx.Err() != nil:
		return tool.ExecResult{}, fmt.Errorf("cancelled before the command was approved: %w", context.Cause(ctx))
	case err != nil:
		t.log.Info("nobody could be asked for an approval at once", "approval", pending.ApprovalID, "error", err)
		return pending, nil
	case rec.State == approval.Denied:
		return tool.ExecResult{}, corral.Errorf(corral.ErrDenied, "", "exec denied: %s", rec.Settled())
	}
	req.SessionID = pending.SessionID
	defer tool.Watch(ctx, func(ctx context.Context) (tool.Progress, bool) { return t.look(ctx, req.SessionID) })()
	return t.c.Exec(ctx, req)
}

// lookLimit bounds calls for progress and for cleaning up.
const lookLimit = 5 * time.Second

func (t Tools) forget(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer cancel()
	p, err := t.c.Session(ctx, id)
	if err == nil {
		err = p.Remove(ctx)
	}
	if err != nil && !errors.Is(err, corral.ErrNotFound) {
		t.log.Warn("cannot forget a session that has ended", "session", id, "error", err)
	}
}

// look is the progress of a command.
func (t Tools) look(ctx context.Context, id string) (tool.Progress, bool) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	p, err := t.c.Session(ctx, id)
	if err != nil {
		return tool.Progress{}, false // the command has not begun, or the gateway is away
	}
	st, err := p.Status(ctx)
	if err != nil {
		return tool.Progress{}, false
	}
	const enough = 4 * tool.TailChars
	buf, tail := make([]byte, enough), []byte(nil)
	for off := max(st.OutputBytes-enough, 0); off < st.OutputBytes; {
		c, err := p.Log().Read(ctx, off, buf)
		if err != nil {
			break
		}
		tail, off = append(tail, c.Data...), c.Next()
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return tool.NewProgress(st, strings.ToValidUTF8(string(tail), "\uFFFD")), true
}
