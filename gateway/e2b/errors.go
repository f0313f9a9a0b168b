package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"connectrpc.com/connect"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// An Error is an answer in E2B's form that no other error makes.
type Error struct {
	Status  int
	Message string
	Sandbox string // that it is about; empty: none
	Port    int
}

func (e *Error) Error() string { return e.Message }

// errorBody is the body of every answer that is not a success. Clients go by the code in
// it, not by the status.
type errorBody struct {
	Sandbox string `json:"sandboxId,omitempty"`
	Code    int    `json:"code"`
	Message string `json:"message"`
	Port    int    `json:"port,omitempty"`
}

// Status is an error as a status and a message.
func Status(err error) (status int, message string) {
	if own, ok := errors.AsType[*Error](err); ok {
		return own.Status, own.Message
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return http.StatusInsufficientStorage, err.Error()
	}
	status, body := api.Encode(err)
	message = body.Error.Message
	if hint := body.Error.Hint; hint != "" {
		message += " (" + hint + ")"
	}
	return status, message
}

// WriteError answers an error.
func WriteError(w http.ResponseWriter, err error) error {
	var body errorBody
	body.Code, body.Message = Status(err)
	if own, ok := errors.AsType[*Error](err); ok {
		body.Sandbox, body.Port = own.Sandbox, own.Port
	}
	return writeJSON(w, body.Code, body)
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%w: cannot encode the answer: %w", api.ErrInternal, err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err = w.Write(append(data, '\n'))
	return err
}

// noContent answers with no body, unless there is an error.
func noContent(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// rpcCodes are errors of Corral's as those of Connect: the first that matches.
var rpcCodes = []struct {
	kind error
	code connect.Code
}{
	{context.DeadlineExceeded, connect.CodeDeadlineExceeded},
	{context.Canceled, connect.CodeCanceled},
	{api.ErrUnauthorized, connect.CodeUnauthenticated},
	{api.ErrTooMany, connect.CodeResourceExhausted},
	{corral.ErrLost, connect.CodeDataLoss},
	{corral.ErrDir, connect.CodeInvalidArgument},
	{corral.ErrNotFound, connect.CodeNotFound},
	{corral.ErrEnded, connect.CodeNotFound},
	{corral.ErrConflict, connect.CodeAlreadyExists},
	{corral.ErrStdinClosed, connect.CodeFailedPrecondition},
	{corral.ErrApproval, connect.CodePermissionDenied},
	{corral.ErrDenied, connect.CodePermissionDenied},
	{corral.ErrInvalid, connect.CodeInvalidArgument},
	{errors.ErrUnsupported, connect.CodeUnimplemented},
	{corral.ErrUnavailable, connect.CodeUnavailable},
}

// rpcError is an error as Connect has it.
func rpcError(err error) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*connect.Error](err); known {
		return err
	}
	_, message := Status(err)
	for _, k := range rpcCodes {
		if errors.Is(err, k.kind) {
			return connect.NewError(k.code, errors.New(message))
		}
	}
	return connect.NewError(connect.CodeInternal, errors.New(message))
}
