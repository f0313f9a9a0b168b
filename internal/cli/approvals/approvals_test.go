package approvals

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/policy/approval"
)

// halfDesk denies all but one.
type halfDesk struct{ Desk }

func (halfDesk) Answer(_ context.Context, ref string, _ approval.Answer) (approval.Record, error) {
	if ref == "gone" {
		return approval.Record{}, corral.Errorf(corral.ErrNotFound, "", "unknown id %q", ref)
	}
	return approval.Record{Slug: ref}, nil
}

// With --json there is one document, also if one of the approvals cannot be denied.
func TestDenyPrintsOneDocument(t *testing.T) {
	var out bytes.Buffer
	a := &app.App{Stdout: &out, Stderr: &out}
	cmd := commands{a}.deny(func(ctx context.Context, do func(context.Context, Desk) error) error { return do(ctx, halfDesk{}) })
	a.Flags = cmd.Flags()
	cmd.SetArgs([]string{"--json", "one", "gone", "two"})
	err := cmd.ExecuteContext(t.Context())
	var got struct {
		Denied []approval.Record
		app.Failure
	}
	if jerr := json.Unmarshal(out.Bytes(), &got); jerr != nil || len(got.Denied) != 2 || got.Reason != "not-found" {
		t.Errorf("%v: %s", jerr, out.String())
	}
	if app.Said(err) || app.ExitCode(err) != app.ExitFailure {
		t.Errorf("and then there is another document: %v", err)
	}
}
