package session

import (
	"testing"
	"time"
)

// Retention spares sessions that are held, and those that are to linger, also in another life
// of the program; and no longer than that.
func TestHeldAndLingering(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.ok(r.m.Close())
		r.cfg.Retention = Retention{Count: 1}
		r.open()
		one := func(o Options) *Session {
			o.Background = true
			s := r.begin("true", o)
			r.status(s, Completed, "")
			time.Sleep(time.Second) // which one is older is to be told
			return s
		}
		there := func(what string, want bool, id string) {
			t.Helper()
			time.Sleep(2 * sweepEvery)
			if _, err := r.agent().Session(id); (err == nil) != want {
				t.Errorf("%s: %v", what, err)
			}
		}
		held := one(Options{})
		release := held.Hold()
		lingers, plain := one(Options{Linger: 20 * time.Minute}), one(Options{})
		one(Options{})
		there("one of many", false, plain.ID())
		there("held", true, held.ID())
		release()
		one(Options{})
		there("not held any more", false, held.ID())
		r.reopen()
		one(Options{})
		there("lingers", true, lingers.ID())
		time.Sleep(20 * time.Minute)
		one(Options{})
		there("has lingered", false, lingers.ID())
	})
}
