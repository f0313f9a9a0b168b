package approval

import (
	"context"
	"errors"

	"github.com/corral-exec/corral"
)

// DenyAll denies all pending requests; answer answers one. It skips requests that were
// answered meanwhile or have expired. It stops at the first that cannot be answered and
// returns its error; those before it are denied.
func DenyAll(ctx context.Context, pending []Record, by string, answer func(context.Context, string, Answer) (Record, error)) ([]Record, error) {
	denied := []Record{}
	for _, rec := range pending {
		now, err := answer(ctx, rec.ID, Answer{Decision: Deny, By: by})
		switch {
		case errors.Is(err, corral.ErrConflict), errors.Is(err, corral.ErrNotFound):
		case err != nil:
			return denied, err
		default:
			denied = append(denied, now)
		}
	}
	return denied, nil
}
