package tool

import (
	"context"
	"encoding/json"

	"github.com/corral-exec/corral"
)

// A Result is an ExecResult, a ProcessResult, or the result of a tool of another
// package. It marshals to JSON.
type Result interface {
	// Text is the result for a model.
	Text() string
	// Failed reports whether the call failed.
	Failed() bool
}

// Call calls a tool by its name, with arguments in JSON. For malformed arguments it
// returns a Result that says what is wrong. The error is ErrNotFound, if there is no
// tool of that name.
func (t *Tools) Call(ctx context.Context, name string, arguments json.RawMessage) (Result, error) {
	switch name {
	case ExecName:
		var req ExecRequest
		warnings, err := Decode(arguments, &req)
		if err != nil {
			return refused(ctx, err, nil), nil
		}
		return t.exec(ctx, req, warnings), nil
	case ProcessName:
		var req ProcessRequest
		warnings, err := Decode(arguments, &req)
		if err != nil {
			r := ProcessResult{Action: req.Action, Warnings: []string{}}
			r.fail(ctx, err)
			return r, nil
		}
		return t.process(ctx, req, warnings), nil
	}
	return nil, corral.Errorf(corral.ErrNotFound, "the tools are "+ExecName+" and "+ProcessName, "there is no tool %q", cut(name))
}
