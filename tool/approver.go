package tool

import (
	"context"

	"github.com/corral-exec/corral/policy/approval"
)

// An Approver answers for a person. The context ends when there is an answer from
// elsewhere, or the call is cancelled.
type Approver func(context.Context, approval.Record) (approval.Answer, error)

type approverKey struct{}

// WithApprover has calls with ctx ask for approvals there and not at
// Config.Approve.
func WithApprover(ctx context.Context, approve Approver) context.Context {
	return context.WithValue(ctx, approverKey{}, approve)
}

// ApproverOf returns what WithApprover was given for ctx, for tools that run
// elsewhere; nil if it was not called.
func ApproverOf(ctx context.Context) Approver {
	approve, _ := ctx.Value(approverKey{}).(Approver)
	return approve
}

func (t *Tools) approver(ctx context.Context) Approver {
	if approve := ApproverOf(ctx); approve != nil {
		return approve
	}
	return t.cfg.Approve
}
