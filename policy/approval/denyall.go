package approval

import (
	"context"
	"errors"

	"github.com/corral-exec/corral"
)

// DenyAll denies what is pending, by what answers one. One that another has
// answered meanwhile, or that expired, is left out. The error is of the first that
// could not be answered; those before it are denied.
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
