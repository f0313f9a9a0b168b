package landlock

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/confine"
)

// A Starter starts commands in domains. The zero Starter is ready; Close ends what
// it began.
type Starter struct {
	mu      sync.Mutex
	watch   *watch
	program []unix.SockFilter // the filter, the same for all
	unable  error             // why loaders are not watched
	spare   *thread           // for the next start
	filling bool              // spare is being made

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

// Start has fork, which makes a process, do so on a thread of its own that is in
// the domain. If only loaders cannot be watched, the rest is enforced, unless the
// domain is required.
func (s *Starter) Start(d *confine.Domain, fork func() (int, error)) (Started, error) {
	version, err := ABI()
	if err != nil {
		return Started{}, &Unenforced{err}
	}
	w, program, unable := s.prepare(d)
	if unable != nil && d.Required {
		return Started{}, &Unenforced{fmt.Errorf("what a loader is given cannot be kept from running: %w", unable)}
	}
	missing := func(why error) string { return fmt.Sprintf("what a loader is given is not kept from running: %v", why) }
	rules, err := s.rules.get(d, version)
	if err != nil {
		return Started{}, &Unenforced{err}
	}
	defer s.rules.put(rules)
	got := Started{Enforced: &confine.Enforced{Programs: !d.AnyProgram, Files: !d.AnyFile, Hint: d.Hint}, Jail: &Jail{rules: rules}}
	if unable != nil {
		got.Missing = missing(unable)
	}
	var failed error
	body := func() {
		if err := rules.restrict(); err != nil {
			failed = &Unenforced{err}
			return
		}
		got.PID, failed = fork()
	}
	if w == nil {
		onThread(func() {
			if err := giveUpPrivileges(); err != nil {
				failed = &Unenforced{err}
				return
			}
			body()
		})
		return got, failed
	}
	t := s.take(w, program)
	switch {
	case t.err == nil:
		if err := w.assign(t.fd, got.Jail); err != nil {
			t.end()
			return Started{}, &Unenforced{err} // nobody would answer
		}
		got.Enforced.Loaders = true
	case !t.bare || d.Required:
		t.end()
		return Started{}, &Unenforced{t.err}
	default:
		got.Missing = missing(t.err)
	}
	t.run(body)
	go s.refill(w, program)
	return got, failed
}

// prepare begins the watch, if the domain needs one and there can be one.
func (s *Starter) prepare(d *confine.Domain) (*watch, []unix.SockFilter, error) {
	if d.AnyProgram {
		return nil, nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch == nil && s.unable == nil {
		var address uint64
		if address, s.unable = learnAddress(); s.unable == nil {
			s.program = filter(address)
			s.watch, s.unable = newWatch()
		}
	}
	return s.watch, s.program, s.unable
}

// Watchable says why loaders cannot be watched here; nil: they can.
func Watchable() error {
	_, err := learnAddress()
	return err
}

// Close ends the watch: what still runs in a domain can execute nothing any more.
func (s *Starter) Close() {
	s.mu.Lock()
	w, spare := s.watch, s.spare
	s.watch, s.spare, s.unable = nil, nil, errors.New("it has ended")
	s.mu.Unlock()
	if spare != nil {
		spare.end()
	}
	s.rules.close()
	if w != nil {
		w.close()
	}
}

// learnAddress finds out from which address this program makes system calls.
var learnAddress = sync.OnceValues(func() (address uint64, err error) {
	if len(architectures) == 0 {
		return 0, errNoFilter
	}
	onThread(func() {
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return
		}
		var fd int
		if fd, err = install(learning()); err != nil {
			return
		}
		defer unix.Close(fd)
		answered := make(chan error)
		go func() {
			var n notification
			err := receive(fd, &n)
			for err == unix.EINTR {
				err = receive(fd, &n)
			}
			address = n.address
			if err == nil {
				reply(fd, n.id, unix.EPERM)
			}
			answered <- err
		}()
		_, _, _ = unix.Syscall(unix.SYS_GETPPID, learningArgument, 0, 0)
		err = <-answered
	})
	if err != nil {
		return 0, fmt.Errorf("the kernel does not ask about system calls: %w", err)
	}
	return address, nil
})
