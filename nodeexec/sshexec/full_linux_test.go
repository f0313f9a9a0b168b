package sshexec

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

// As many commands as a host may have leave room to end them: a signal arrives, and
// time-outs are enforced.
func TestFullHostCanBeSignalled(t *testing.T) {
	x := box(t, startSSHD(t, "MaxSessions 1").open(t))
	var all sync.WaitGroup
	procs := make([]corral.Process, maxConns)
	for i := range procs {
		all.Go(func() {
			cmd := corral.Command{Args: []string{"sleep", "60"}}
			if i > 0 {
				cmd.Timeout, cmd.Grace = 5*time.Second, -1
			}
			var err error
			if procs[i], err = x.Start(t.Context(), cmd); err != nil {
				t.Error(err)
			}
		})
	}
	if all.Wait(); t.Failed() {
		return
	}
	if _, err := x.Start(t.Context(), corral.Command{Args: []string{"true"}}); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("one more: %v", err)
	}
	if err := procs[0].Signal(t.Context(), corral.SIGKILL); err != nil {
		t.Errorf("Signal: %v", err)
	}
	for i, p := range procs {
		want := corral.ReasonTimeout
		if i == 0 {
			want = corral.ReasonExited
		}
		exit, err := p.Wait(t.Context())
		if err != nil || exit.Signal != corral.SIGKILL || exit.Reason != want || exit.EndedAt.Sub(exit.StartedAt) > 50*time.Second {
			t.Errorf("command %d: %v, %v", i, exit, err)
		}
	}
}
