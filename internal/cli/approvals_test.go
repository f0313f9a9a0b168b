package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy/approval"
)

// halfDesk denies all but one.
type halfDesk struct{ desk }

func (halfDesk) Answer(_ context.Context, ref string, _ approval.Answer) (approval.Record, error) {
	if ref == "gone" {
		return approval.Record{}, corral.Errorf(corral.ErrNotFound, "", "unknown id %q", ref)
	}
	return approval.Record{Slug: ref}, nil
}

// With --json there is one document, also if one of the approvals cannot be denied.
func TestDenyPrintsOneDocument(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdout: &out, stderr: &out}
	cmd := a.approvalsDeny(func(ctx context.Context, do func(context.Context, desk) error) error { return do(ctx, halfDesk{}) })
	a.flags = cmd.Flags()
	cmd.SetArgs([]string{"--json", "one", "gone", "two"})
	err := cmd.ExecuteContext(t.Context())
	var got struct {
		Denied []approval.Record
		failure
	}
	if jerr := json.Unmarshal(out.Bytes(), &got); jerr != nil || len(got.Denied) != 2 || got.Reason != "not-found" {
		t.Errorf("%v: %s", jerr, out.String())
	}
	if said(err) || exitCode(err) != exitFailure {
		t.Errorf("and then there is another document: %v", err)
	}
}
