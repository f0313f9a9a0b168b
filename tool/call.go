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

// ParseExec reads the arguments of exec as Call does. The warnings are for the
// result.
func ParseExec(arguments json.RawMessage) (req ExecRequest, warnings []string, err error) {
	warnings, err = decode(arguments, &req)
	return req, warnings, err
}

// ParseProcess reads the arguments of process in the same way.
func ParseProcess(arguments json.RawMessage) (req ProcessRequest, warnings []string, err error) {
	warnings, err = decode(arguments, &req)
	return req, warnings, err
}

// Call calls a tool by its name, with arguments in JSON. For malformed arguments it
// returns a Result that says what is wrong. The error is ErrNotFound, if there is no
// tool of that name.
func (t *Tools) Call(ctx context.Context, name string, arguments json.RawMessage) (Result, error) {
	switch name {
	case ExecName:
		var req ExecRequest
		warnings, err := decode(arguments, &req)
		if err != nil {
			return refused(ctx, err, nil), nil
		}
		return t.exec(ctx, req, warnings), nil
	case ProcessName:
		var req ProcessRequest
		warnings, err := decode(arguments, &req)
		if err != nil {
			r := ProcessResult{Action: req.Action, Warnings: []string{}}
			r.fail(ctx, err)
			return r, nil
		}
		return t.process(ctx, req, warnings), nil
	}
	return nil, corral.Errorf(corral.ErrNotFound, "the tools are "+ExecName+" and "+ProcessName, "there is no tool %q", cut(name))
}

// Decode reads the arguments of a call into a struct with strings, booleans, numbers,
// lists and maps of strings, and pointers to these. It is for tools of other packages.
// A value of another JSON type than the field's is converted if its meaning is clear. A
// duplicate key is refused. The warnings name the members for which there is no field.
func Decode(arguments json.RawMessage, into any) (warnings []string, err error) {
	return decode(arguments, into)
}
