package landlock

import (
	"errors"
	"fmt"
	"sync"

	"github.com/corral-exec/corral/internal/confine"
	"github.com/corral-exec/corral/internal/warden/spawn"
)

// A Starter starts commands in domains. The zero Starter is ready; Close ends what
// it began.
type Starter struct {
	mu     sync.Mutex
	watch  *watch
	unable error // why loaders are not watched

	rules rulesets
}

// Started is a command that Start started.
type Started struct {
	PID      int
	Enforced *confine.Enforced
	Jail     *Jail
	// Missing says what of the domain is not in force, and why; empty: all is.
	Missing string
}

// Unenforced says that a domain cannot be put in force here. Nothing was started.
type Unenforced struct{ Err error }

func (e *Unenforced) Error() string { return e.Err.Error() }
func (e *Unenforced) Unwrap() error { return e.Err }

// Start makes a process in a domain. If only loaders cannot be watched, the rest is
// enforced, unless the domain is required.
func (s *Starter) Start(d *confine.Domain, file string, args []string, attr spawn.Attr) (Started, error) {
	version, err := ABI()
	if err != nil {
		return Started{}, &Unenforced{err}
	}
	w, unable := s.prepare(d)
	if unable != nil && d.Required {
		return Started{}, &Unenforced{notWatched(unable)}
	}
	rules, err := s.rules.get(d, version)
	if err != nil {
		return Started{}, &Unenforced{err}
	}
	defer s.rules.put(rules)
	attr.Confine, attr.Ruleset = true, rules.fd
	j := &Jail{watch: w, rules: rules}
	if w != nil {
		attr.Secret = uintptr(w.secret)
		err = w.start(j, func() (int, error) { return spawn.Start(file, args, &attr) })
	} else {
		j.pid, err = spawn.Start(file, args, &attr)
	}
	switch {
	case errors.As(err, new(*spawn.ConfineError)):
		return Started{}, &Unenforced{err}
	case err != nil:
		return Started{}, err
	}
	got := Started{
		PID: j.pid, Jail: j,
		Enforced: &confine.Enforced{Programs: !d.AnyProgram, Files: !d.AnyFile, Loaders: w != nil, Hint: d.Hint},
	}
	if unable != nil {
		got.Missing = notWatched(unable).Error()
	}
	return got, nil
}

func notWatched(why error) error {
	return fmt.Errorf("what a loader is given cannot be kept from running: %w", why)
}

// prepare begins the watch, if the domain needs one and there can be one.
func (s *Starter) prepare(d *confine.Domain) (*watch, error) {
	if d.AnyProgram {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch == nil && s.unable == nil {
		s.watch, s.unable = newWatch(s.rules.isLoader)
	}
	return s.watch, s.unable
}

// OnThread calls f on the thread on which processes are made, which traces those
// that are to be traced.
func (s *Starter) OnThread(f func()) error {
	s.mu.Lock()
	w := s.watch
	s.mu.Unlock()
	if w == nil {
		f()
		return nil
	}
	return w.calls.call(f)
}

// Watchable says why loaders cannot be watched here; nil: they can.
func Watchable() error {
	w, err := newWatch(nil) // no command runs in it
	if err == nil {
		w.close()
	}
	return err
}

// Close ends the watch: what still runs in a domain can execute nothing any more.
func (s *Starter) Close() {
	s.mu.Lock()
	w := s.watch
	s.watch, s.unable = nil, errEnded
	s.mu.Unlock()
	if w != nil {
		w.close()
	}
	s.rules.close()
}
