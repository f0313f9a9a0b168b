package approval

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Those who follow the desk learn that a request expired, even if no desk was open for days
// or the machine slept.
func TestExpiredWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d := openDesk(t, dir)
		r := ask(t, d, request("x y"))
		ok(t, d.Close())
		time.Sleep(3 * lingering)
		d = openDesk(t, dir)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		changed, _, err := d.Changes(ctx, 0)
		if !slices.ContainsFunc(changed, func(now Record) bool { return now.ID == r.ID && now.State == Expired }) {
			t.Errorf("%+v, %v", changed, err)
		}
		time.Sleep(lingering + time.Hour)
		if left := d.List(Filter{}); len(left) != 0 {
			t.Errorf("%d are still there", len(left))
		}
		ok(t, d.Close())
	})
}
