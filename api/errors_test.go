package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

// What an error says, and what errors.Is says of it, is the same on the other
// side.
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		kind   error
		code   string
		status int
	}{
		{corral.ErrInvalid, "invalid", 400}, {corral.ErrDir, "bad-directory", 400}, {corral.ErrDenied, "denied", 403},
		{corral.ErrNotFound, "not-found", 404}, {corral.ErrConflict, "conflict", 409}, {corral.ErrRunning, "running", 409},
		{corral.ErrEnded, "ended", 409}, {corral.ErrApproval, "approval-pending", 403}, {corral.ErrStdinClosed, "stdin-closed", 409}, {errors.ErrUnsupported, "unsupported", 501},
		{corral.ErrUnavailable, "unavailable", 503}, {corral.ErrLost, "lost", 502}, {corral.ErrNotListening, "not-listening", 502}, {ErrUnauthorized, "unauthorized", 401},
		{ErrTooLarge, "too-large", 413}, {ErrInternal, "internal", 500},
	} {
		status, body := Encode(fmt.Errorf("more: %w", corral.Errorf(tt.kind, "do this", "it did not work")))
		if status != tt.status || body.Error.Code != tt.code {
			t.Errorf("%v is %d %s, want %d %s", tt.kind, status, body.Error.Code, tt.status, tt.code)
		}
		wire, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		got := Decode(status, wire)
		if !errors.Is(got, tt.kind) || got.Error() != "more: it did not work" || corral.Hint(got) != "do this" {
			t.Errorf("%v came out as %v (%s)", tt.kind, got, corral.Hint(got))
		}
		// A later version may have codes that are not known here.
		if got := DecodeBody(status, ErrorBody{Code: "new", Message: "m"}); got.Error() != "m" || errors.Is(got, ErrInternal) && status < 500 {
			t.Errorf("an unknown code with %d: %v", status, got)
		}
	}
	if status, body := Encode(context.Canceled); status != 500 || body.Error.Code != "internal" {
		t.Errorf("an error that is not of the contract: %d %+v", status, body)
	}
	// It may have run: that is what has to be known.
	if _, body := Encode(corral.Errorf(corral.ErrLost, "", "%w", corral.ErrUnavailable)); body.Error.Code != "lost" {
		t.Errorf("lost and unavailable is %s", body.Error.Code)
	}
	if _, body := Encode(errors.New("not \xff UTF-8")); !strings.Contains(body.Error.Message, "not � UTF-8") {
		t.Errorf("%+v", body)
	}
}

func TestForeignErrors(t *testing.T) {
	for status, kind := range map[int]error{
		400: corral.ErrInvalid, 401: ErrUnauthorized, 403: corral.ErrDenied, 404: corral.ErrNotFound, 409: corral.ErrConflict, 413: corral.ErrInvalid,
		418: corral.ErrInvalid, 429: ErrTooMany, 500: ErrInternal, 501: errors.ErrUnsupported, 502: corral.ErrLost, 503: corral.ErrUnavailable, 599: ErrInternal,
	} {
		err := Decode(status, []byte("<html>\n\n"+strings.Repeat("x", 1000)))
		if !errors.Is(err, kind) || len(err.Error()) > 300 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d is %v", status, err)
		}
	}
}

func FuzzErrors(f *testing.F) {
	f.Add(400, []byte(`{"error":{"code":"invalid","message":"m","hint":"h"}}`))
	f.Add(999, []byte("\xff"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		err := Decode(status, body)
		if err == nil || err.Error() == "" {
			t.Fatal("no error")
		}
		again, encoded := Encode(err)
		if encoded.Error.Message == "" || again < 400 {
			t.Fatalf("%d %+v", again, encoded)
		}
	})
}
