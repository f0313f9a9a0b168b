package execdriver

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

func timed(cmd corral.Command) corral.Command {
	cmd.Timeout = 50 * time.Millisecond
	return cmd
}

func TestExecDriverTimeout(t *testing.T) {
	e := &fakeEngine{noKill: []error{errors.New("busy")}}
	d := fakeDriver(t, e, t.TempDir())
	ended := mustStart(t, d, command("exit", "3"))
	mustWait(t, ended)
	other := mustStart(t, d, command("sleep"))
	p := mustStart(t, d, timed(command("sleep")))
	exit := mustWait(t, p)
	if exit.Reason != corral.ReasonTimeout || exit.Signal != corral.SIGKILL || exit.Code != -1 {
		t.Errorf("exit %+v", exit)
	}
	if exit, err := other.Wait(t.Context()); !errors.Is(err, corral.ErrLost) {
		t.Errorf("the other command: %+v, %v", exit, err)
	}
	if exit := mustWait(t, ended); exit.Code != 3 {
		t.Errorf("the command that had ended: %+v", exit)
	}
	mustWait(t, mustStart(t, d, command("exit", "0")))
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.kills, []string{"c1"}) || e.live[len(e.live)-1].container != "c2" {
		t.Errorf("killed %v, then used %s", e.kills, e.live[len(e.live)-1].container)
	}
}

// What ended by itself before the container did keeps its own exit.
func TestExecDriverTimeoutTooLate(t *testing.T) {
	for _, test := range []struct {
		name   string
		engine *fakeEngine
		reason corral.Reason
	}{
		{"before the kill", &fakeEngine{noKill: []error{errors.New("busy")}}, corral.ReasonExited},
		{"during the kill", &fakeEngine{}, corral.ReasonTimeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := fakeDriver(t, test.engine, t.TempDir())
			other := mustStart(t, d, command("sleep"))
			p := mustStart(t, d, timed(command("sleep")))
			end := func() {
				for _, x := range test.engine.live {
					x.exit(7)
				}
			}
			if test.reason == corral.ReasonTimeout {
				test.engine.mu.Lock()
				test.engine.whenKill = end
				test.engine.mu.Unlock()
			} else {
				for tried := false; !tried; time.Sleep(time.Millisecond) {
					test.engine.mu.Lock()
					if tried = len(test.engine.noKill) == 0; tried {
						end()
						for _, x := range test.engine.live {
							x.hangUp()
						}
					}
					test.engine.mu.Unlock()
				}
			}
			if exit := mustWait(t, p); exit.Code != 7 || exit.Signal != 0 || exit.Reason != test.reason {
				t.Errorf("exit %+v", exit)
			}
			if exit := mustWait(t, other); exit.Code != 7 || exit.Reason != corral.ReasonExited {
				t.Errorf("the other's exit %+v", exit)
			}
		})
	}
}

func TestExecDriverTimeoutNotReached(t *testing.T) {
	e := &fakeEngine{}
	d := fakeDriver(t, e, t.TempDir())
	cmd := command("exit", "1")
	cmd.Timeout = time.Minute
	if exit := mustWait(t, mustStart(t, d, cmd)); exit.Code != 1 || len(e.kills) != 0 {
		t.Errorf("exit %+v, killed %v", exit, e.kills)
	}
}
