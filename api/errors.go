package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/corral-exec/corral"
)

// Errors that only the HTTP API has.
var (
	// ErrUnauthorized: no token, or a wrong one.
	ErrUnauthorized = fmt.Errorf("unauthorized: %w", corral.ErrDenied)
	// ErrTooLarge: the body is larger than MaxBody.
	ErrTooLarge = fmt.Errorf("too large: %w", corral.ErrInvalid)
	// ErrTooMany: a quota of the key is used up. See TooMany.
	ErrTooMany = fmt.Errorf("too many: %w", corral.ErrUnavailable)
	// ErrInternal is a defect of the gateway; its log says more.
	ErrInternal = errors.New("internal error of the gateway")
)

// Error is the body of every answer that is not a success.
type Error struct {
	Error ErrorBody `json:"error"`
}

// ErrorBody is one error of package corral.
type ErrorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Details is the result of an error's Details method, as JSON.
	Details json.RawMessage `json:"details,omitempty"`
}

// detailed is an error with more data than its message.
type detailed interface {
	error
	Details() any
}

// A remoteError is an error with details that came from a gateway.
type remoteError struct {
	err     *corral.Error
	details json.RawMessage
}

func (e remoteError) Error() string { return e.err.Text }
func (e remoteError) Details() any  { return e.details }
func (e remoteError) Unwrap() error { return e.err }

// kinds maps errors to codes and statuses: the first entry that errors.Is matches
// counts.
var kinds = []struct {
	kind   error
	code   string
	status int
}{
	{ErrUnauthorized, "unauthorized", http.StatusUnauthorized},
	{ErrTooMany, "too-many", http.StatusTooManyRequests},
	{ErrTooLarge, "too-large", http.StatusRequestEntityTooLarge},
	// It may have run: that matters more than the reason why the result is unknown.
	{corral.ErrLost, "lost", http.StatusBadGateway},
	{corral.ErrNotListening, "not-listening", http.StatusBadGateway},
	{corral.ErrDir, "bad-directory", http.StatusBadRequest},
	{corral.ErrNotFound, "not-found", http.StatusNotFound},
	{corral.ErrConflict, "conflict", http.StatusConflict},
	{corral.ErrRunning, "running", http.StatusConflict},
	{corral.ErrStdinClosed, "stdin-closed", http.StatusConflict},
	{corral.ErrEnded, "ended", http.StatusConflict},
	{corral.ErrApproval, "approval-pending", http.StatusForbidden},
	{corral.ErrDenied, "denied", http.StatusForbidden},
	{corral.ErrInvalid, "invalid", http.StatusBadRequest},
	{errors.ErrUnsupported, "unsupported", http.StatusNotImplemented},
	{corral.ErrUnavailable, "unavailable", http.StatusServiceUnavailable},
	{ErrInternal, "internal", http.StatusInternalServerError},
}

// Encode returns err as an HTTP status and a body. An error outside the contract is
// internal.
func Encode(err error) (status int, body Error) {
	e := Error{ErrorBody{Code: "internal", Message: text(err.Error()), Hint: text(corral.Hint(err))}}
	if more, ok := errors.AsType[detailed](err); ok {
		if b, err := json.Marshal(more.Details()); err == nil {
			e.Error.Details = b
		}
	}
	for _, k := range kinds {
		if errors.Is(err, k.kind) {
			e.Error.Code = k.code
			return k.status, e
		}
	}
	return http.StatusInternalServerError, e
}

// Decode returns the error in an answer with a status of 400 or more. An answer that is
// not from a gateway of this version is decoded as well as possible, by its status:
// errors.Is works on every result.
func Decode(status int, body []byte) error {
	var e Error
	if json.Unmarshal(body, &e) == nil && e.Error.Message != "" {
		return DecodeBody(status, e.Error)
	}
	return corral.Errorf(kindOf(status), "check that the address is that of a gateway of corral",
		"the answer is %d %s: %s", status, http.StatusText(status), clip(body))
}

// DecodeBody is Decode for a body that was already parsed.
func DecodeBody(status int, e ErrorBody) error {
	err := &corral.Error{Kind: kindOf(status), Text: e.Message, Hint: e.Hint}
	for _, k := range kinds {
		if k.code == e.Code {
			err.Kind = k.kind
			break
		}
	}
	if len(e.Details) > 0 {
		return remoteError{err, e.Details}
	}
	return err
}

// kindOf returns the best guess for a status alone.
func kindOf(status int) error {
	switch status {
	case http.StatusNotFound, http.StatusGone:
		return corral.ErrNotFound
	case http.StatusUnauthorized:
		return ErrUnauthorized
	case http.StatusForbidden:
		return corral.ErrDenied
	case http.StatusConflict:
		return corral.ErrConflict
	case http.StatusRequestEntityTooLarge:
		return ErrTooLarge
	case http.StatusTooManyRequests:
		return ErrTooMany
	case http.StatusNotImplemented:
		return errors.ErrUnsupported
	case http.StatusServiceUnavailable:
		return corral.ErrUnavailable
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return corral.ErrLost
	}
	if status >= 400 && status < 500 {
		return corral.ErrInvalid
	}
	return ErrInternal
}

// text makes s fit for JSON: bytes that are not UTF-8 would change silently.
func text(s string) string { return strings.ToValidUTF8(s, "�") }

// clip returns the beginning of a foreign answer, in one line.
func clip(b []byte) string {
	const most = 200
	if len(b) > most {
		b = b[:most]
	}
	return strings.Join(strings.Fields(text(string(b))), " ")
}
