package session

import (
	"fmt"
	"testing"

	"github.com/corral-exec/corral"
)

// An agent whose sessions are all gone takes no memory: clients make up names.
func TestAgentsAreForgotten(t *testing.T) {
	inBubble(t, func(r *rig) {
		stays := r.begin("sleep", Options{Background: true})
		for i := range 10 {
			s, err := r.m.Agent(fmt.Sprint("agent-", i)).Begin(r.Context(), Options{Command: corral.Command{Shell: "true"}, Background: true, Keep: i%2 == 0})
			r.ok(err)
			_, err = s.Wait(r.Context())
			r.ok(err)
			r.ok(s.Remove(r.Context()))
		}
		if len(r.m.running) != 1 || r.m.running[DefaultAgent].Load() != 1 {
			r.Errorf("%v", r.m.running)
		}
		r.ok(stays.Signal(r.Context(), corral.SIGKILL))
		_, err := stays.Wait(r.Context())
		r.ok(err)
		r.ok(stays.Remove(r.Context()))
		if len(r.m.running) != 0 {
			r.Errorf("%v", r.m.running)
		}
	})
}
