package wardenexec

import (
	"time"

	"github.com/corral-exec/corral"
)

// unnoted is an end that could not be recorded.
type unnoted struct {
	p    *process
	exit corral.Exit
}

// noteDelay is how long after it failed recording is tried again. A variable for
// tests.
var noteDelay = time.Second

// noteLater has an end recorded when that is possible again: perhaps no caller asks
// for that process any more, and the warden must not keep it for ever.
func (e *Executor) noteLater(p *process, exit corral.Exit) {
	p.mu.Lock()
	p.unnoted = true
	p.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return // a later life does it
	}
	e.unnoted = append(e.unnoted, unnoted{p, exit})
	if len(e.unnoted) == 1 {
		e.wg.Add(1)
		go e.noteAgain()
	}
}

func (e *Executor) noteAgain() {
	defer e.wg.Done()
	for again := true; again; again = e.noteNow() {
		select {
		case <-time.After(noteDelay):
		case <-e.life.Done():
			return
		}
	}
}

// noteNow tries to record what could not be recorded. It reports whether
// something is left.
func (e *Executor) noteNow() bool {
	e.noting.Lock()
	defer e.noting.Unlock()
	e.mu.Lock()
	list := e.unnoted
	e.mu.Unlock()
	done := 0
	for _, u := range list {
		if !u.p.noteAgain(u.exit) {
			break // the others would not fare better
		}
		done++
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unnoted = e.unnoted[done:]
	return len(e.unnoted) > 0
}

// noteAgain is note, of what may have been recorded or removed meanwhile.
func (p *process) noteAgain(exit corral.Exit) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unnoted && !p.removed {
		p.unnoted = !p.note(exit)
	}
	return !p.unnoted || p.removed
}
