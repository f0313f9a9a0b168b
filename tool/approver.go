package tool

import (
	"context"

	"github.com/corral-exec/corral/policy/approval"
)

// An Approver asks a person about an approval and returns the answer. The context ends
// when the approval is answered elsewhere, or the call is cancelled.
type Approver func(context.Context, approval.Record) (approval.Answer, error)

type approverKey struct{}

// WithApprover returns a context in which calls use approve in place of
// Config.Approve.
func WithApprover(ctx context.Context, approve Approver) context.Context {
	return context.WithValue(ctx, approverKey{}, approve)
}

// ApproverOf returns the Approver that WithApprover put into ctx, for tools that run
// elsewhere; nil if there is none.
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
