package nodeexec_test

import (
	"sync"
	"testing"
	"time"
)

// A gateway that starts knows of no node yet. However many commands come at once, they
// all wait for the node's answer.
func TestAllWaitForTheFirstAnswer(t *testing.T) {
	f := newFleet(t)
	f.serve(gpu("n1"), fake(t, nil), 0)
	first, _ := f.gateway()
	f.await(first, 1)
	for range 20 {
		g, _ := f.gateway()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, _, err := g.Select(t.Context(), "n1"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		time.Sleep(100 * time.Millisecond) // a node says hello ten times a second at most
	}
}
