package pathenv

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
)

const (
	// ProbeTimeout is how long a login shell has to answer.
	ProbeTimeout = 15 * time.Second
	// probeLimit bounds what it may print, in bytes.
	probeLimit = 2 << 20
	// probeText prints the environment between two empty strings: the first
	// separates it from the profile's output, the second marks its end.
	probeText = `printf '\000'; env -0; printf '\000'`
)

// ProbeOptions say how the login shell is found and run.
type ProbeOptions struct {
	Environ []string      // the daemon's environment
	Home    string        // the account's home directory (see AccountHome)
	Timeout time.Duration // 0: ProbeTimeout
	Shells  string        // the file that lists login shells; empty: /etc/shells

	// Kept is a file that keeps the answer for some minutes, for the next programs
	// of this user; see LoginProbe. Empty: every probe asks.
	Kept string

	// Run starts a shell and returns what it printed; nil starts a real one.
	Run func(ctx context.Context, shell string, args, env []string) ([]byte, error)

	now func() time.Time // for tests; nil: time.Now
}

// A LoginProbe asks the account's login shell for its PATH. A daemon needs the
// user's profile to find programs that the user installed.
//
// The shell is $SHELL if that is an absolute, clean path that /etc/shells lists,
// else /bin/sh. It runs in a session of its own, without a terminal and without
// input. Its environment is the daemon's as Gateway would pass it on, with HOME set
// to the account's and without ZDOTDIR. When it has answered, or its time is up, or
// it printed more than 2 MiB, its process group is killed, and on Linux its whole
// session; one that has not answered gets SIGTERM first, and a second to clean up. A daemon that a profile starts in a session of its own (such as
// ssh-agent) lives on.
//
// It asks once: every call gets that answer, or that failure.
//
// With ProbeOptions.Kept, an answer of another program is used if it is less than ten
// minutes old and nothing that it is known to depend on has changed: the user, the
// shell's program, the environment that it gets (all variables but PWD, OLDPWD and _),
// the profiles in /etc and in the home directory that shells read, by their inodes,
// sizes and times, and whether the home directory has bin and .local/bin. A failure is
// not kept.
type LoginProbe struct {
	opts   ProbeOptions
	ask    sync.Once
	ctx    context.Context // of the only probe
	cancel context.CancelFunc
	done   chan struct{} // closed when path and err are set
	path   string
	err    error
}

// NewLoginProbe returns a probe that has not asked yet.
func NewLoginProbe(o ProbeOptions) *LoginProbe {
	o.Timeout = cmp.Or(o.Timeout, ProbeTimeout)
	o.Shells = cmp.Or(o.Shells, "/etc/shells")
	if o.Run == nil {
		o.Run = runLoginShell
	}
	if o.now == nil {
		o.now = time.Now
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &LoginProbe{opts: o, ctx: ctx, cancel: cancel, done: make(chan struct{})}
}

// PATH returns the login shell's PATH. If there is none, it returns an ErrUnavailable.
// ctx bounds this call, but not the probe. On Windows, which has no login shells, PATH
// is empty without an error.
func (p *LoginProbe) PATH(ctx context.Context) (string, error) {
	p.start()
	select {
	case <-p.done:
		return p.path, p.err
	case <-ctx.Done():
		return "", corral.Errorf(corral.ErrUnavailable, "try again; the shell may still answer", "cannot wait for the login shell's PATH: %w", context.Cause(ctx))
	}
}

// Close ends a probe that is under way and waits until its shell is gone.
// Later calls of PATH fail, unless the shell had answered.
func (p *LoginProbe) Close() {
	p.cancel()
	p.start() // with a cancelled context, if it was not started
	<-p.done
}

func (p *LoginProbe) start() {
	p.ask.Do(func() {
		go func() {
			defer close(p.done)
			defer p.cancel()
			p.path, p.err = p.probe()
		}()
	})
}

func (p *LoginProbe) probe() (string, error) {
	if runtime.GOOS == "windows" {
		return "", nil
	}
	shell := p.shell()
	env, of := p.environ(), ""
	if p.opts.Kept != "" {
		of = dependsOn(shell, env, p.opts.now())
	}
	if of != "" {
		if path := p.kept(of); path != "" {
			return path, nil
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.opts.Timeout)
	defer cancel()
	hint := "the profile must end by itself and leave PATH set; try: " + shell + " -l -c 'env -0'"
	out, err := p.opts.Run(ctx, shell, []string{"-l", "-c", probeText}, env)
	if err != nil {
		return "", corral.Errorf(corral.ErrUnavailable, hint, "cannot ask the login shell %s for its PATH: %w", shell, err)
	}
	path := strings.TrimSpace(parseEnvBlock(out)["PATH"])
	if path == "" {
		return "", corral.Errorf(corral.ErrUnavailable, hint, "cannot use the login shell %s: it has no PATH", shell)
	}
	if of != "" && of == dependsOn(shell, env, p.opts.now()) { // nothing changed while the shell read it
		p.keep(of, path)
	}
	return path, nil
}

// shell is the account's shell if /etc/shells lists it, else /bin/sh.
func (p *LoginProbe) shell() string {
	const fallback = "/bin/sh"
	shell := ""
	for _, kv := range p.opts.Environ {
		if value, ok := strings.CutPrefix(kv, "SHELL="); ok {
			shell = value
		}
	}
	if !filepath.IsAbs(shell) || filepath.Clean(shell) != shell {
		return fallback
	}
	listed, err := os.ReadFile(p.opts.Shells)
	if err != nil { // no list of shells
		return fallback
	}
	for line := range strings.Lines(string(listed)) {
		if strings.TrimSpace(line) == shell {
			return shell
		}
	}
	return fallback
}

func (p *LoginProbe) environ() []string {
	b := newBuilder(runtime.GOOS)
	b.inherit(p.opts.Environ, nil, SourceDaemon)
	delete(b.vars, "ZDOTDIR")
	if p.opts.Home != "" {
		b.set("HOME", p.opts.Home)
	}
	return b.list()
}
