package landlock

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/confine"
	"github.com/corral-exec/corral/internal/spawn"
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
	if w != nil {
		attr.Filter, attr.FilterFlags, attr.Secret = w.program, w.flags, uintptr(w.secret)
	}
	pid, listener, err := spawn.Start(file, args, &attr)
	if c := (*spawn.ConfineError)(nil); errors.As(err, &c) && c.Filter && !d.Required {
		unable, attr.Filter = err, nil
		pid, listener, err = spawn.Start(file, args, &attr)
	}
	switch {
	case errors.As(err, new(*spawn.ConfineError)):
		return Started{}, &Unenforced{err}
	case err != nil:
		return Started{}, err
	}
	got := Started{PID: pid, Enforced: &confine.Enforced{Programs: !d.AnyProgram, Files: !d.AnyFile, Hint: d.Hint}, Jail: &Jail{rules: rules}}
	if unable != nil {
		got.Missing = notWatched(unable).Error()
	}
	if listener >= 0 {
		// Its first program, while it begins to load: any other is asked about.
		loads, err := rules.isLoader("/proc/" + strconv.Itoa(pid))
		got.Jail.first = err == nil && !loads
		w.add(listener, got.Jail)
		got.Enforced.Loaders = true
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
		var flags uintptr
		if flags, s.unable = askFlags(); s.unable == nil {
			s.watch, s.unable = newWatch(flags)
		}
	}
	return s.watch, s.unable
}

// Watchable says why loaders cannot be watched here; nil: they can.
func Watchable() error {
	_, err := askFlags()
	return err
}

// Close ends the watch: what still runs in a domain can execute nothing any more.
func (s *Starter) Close() {
	s.mu.Lock()
	w := s.watch
	s.watch, s.unable = nil, errors.New("it has ended")
	s.mu.Unlock()
	s.rules.close()
	if w != nil {
		w.close()
	}
}

// askFlags are those of a filter, as far as the kernel knows them. That is found out
// on a thread that ends, since it keeps the filter.
var askFlags = sync.OnceValues(func() (flags uintptr, err error) {
	if len(architectures) == 0 {
		return 0, errNoFilter
	}
	var try func()
	try = func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// The first thread of a program never ends. It is held, so that
			// another tries.
			wait(try)
			runtime.UnlockOSThread()
			return
		}
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err == nil {
			flags, err = install([]unix.SockFilter{allow})
		}
	}
	wait(try)
	if err != nil {
		err = fmt.Errorf("the kernel does not ask about system calls: %w", err)
	}
	return flags, err
})

// wait runs f in another goroutine.
func wait(f func()) {
	var group sync.WaitGroup
	group.Go(f)
	group.Wait()
}
