package hostexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden"
	"github.com/corral-exec/corral/internal/warden/wardenbin"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/internal/warden/wire"
	"github.com/corral-exec/corral/pathenv"
)

// An Executor runs commands on this machine; it is a corral.Executor and an
// io.Closer.
type Executor struct {
	*wardenexec.Executor
	cfg    Config
	runDir string

	mu         sync.Mutex
	supervisor *warden.Supervisor // of this process, with InProcess
	serving    sync.WaitGroup
}

// New returns an Executor. The warden is started with the first command.
func New(cfg Config) (*Executor, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	e := &Executor{cfg: cfg, runDir: runDir(cfg.StateDir)}
	if err := os.MkdirAll(e.runDir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the state directory: %w", err)
	}
	connect := e.dial
	if cfg.InProcess {
		connect = e.inProcess
	}
	var err error
	e.Executor, err = wardenexec.New(wardenexec.Options{
		Dir: logDir(cfg.StateDir), Ephemeral: cfg.InProcess,
		Connect: connect, EndedIdle: e.endedIdle, Prepare: e.cfg.plan,
		Info: corral.Info{Host: corral.HostGateway},
		Log:  cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	if cfg.InProcess {
		return e, nil // the supervisor takes over when it starts
	}
	for _, dir := range cfg.TakeOver {
		if err := warden.Gather(runDir(dir), e.runDir); err != nil {
			cfg.Log.Error("commands of a program that was killed run on without one", "state", dir, "error", err)
		}
	}
	if e.leftBehind() {
		// No caller may ever ask for them, but their time-outs run.
		ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
		defer cancel()
		if err := e.startWarden(ctx); err != nil {
			cfg.Log.Error("commands of a warden that was killed run on without one", "error", err)
		}
	}
	return e, nil
}

// runDir returns the directory of a state directory's supervisors.
func runDir(stateDir string) string { return filepath.Join(stateDir, "run", "host") }

// leftBehind reports whether a killed warden left commands; then another warden has to
// be started.
func (e *Executor) leftBehind() bool {
	n := warden.LeftBehind(e.runDir)
	if n > 0 {
		e.cfg.Log.Warn("the warden was killed; another takes over its commands; how they end will not be known",
			"commands", n, "log", filepath.Join(e.runDir, warden.LogName))
	}
	return n > 0
}

// KilledWithCommands reports whether a program with Config.InProcess and this state
// directory started commands and died before they ended, or still runs.
func KilledWithCommands(stateDir string) bool { return warden.HasLedger(runDir(stateDir)) }

// Plan tells a Guard how Start would execute a command: its environment and its shell.
func (e *Executor) Plan(ctx context.Context, cmd corral.Command) (pathenv.Plan, error) {
	if err := cmd.Validate(); err != nil {
		return pathenv.Plan{}, err
	}
	return e.cfg.plan(ctx, cmd)
}

// shutdownTimeout bounds the question whether the warden is idle.
const shutdownTimeout = time.Second

// Close releases commands, which go on; with Config.InProcess it kills them. An idle
// warden ends.
func (e *Executor) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	e.Shutdown(ctx)
	err := e.Executor.Close()
	if e.cfg.LoginProbe != nil {
		e.cfg.LoginProbe.Close()
	}
	e.mu.Lock()
	s := e.supervisor
	e.supervisor = nil
	e.mu.Unlock()
	if s != nil {
		s.Close()
		e.serving.Wait()
	}
	return err
}

// inProcess connects to a supervisor in this process.
func (e *Executor) inProcess(_ context.Context, start bool) (wire.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.supervisor == nil {
		if !start {
			return nil, wardenexec.ErrGone
		}
		opts := warden.Options{Log: e.wardenLog, Ledger: e.runDir, TakeOver: []string{e.runDir}}
		for _, dir := range e.cfg.TakeOver {
			opts.TakeOver = append(opts.TakeOver, runDir(dir))
		}
		s, err := warden.New(opts)
		if err != nil {
			return nil, err
		}
		e.supervisor = s
	}
	ours, theirs, err := wire.PacketPair()
	if err != nil {
		return nil, err
	}
	e.serving.Add(1)
	s := e.supervisor // Close sets the field to nil
	go func() {
		defer e.serving.Done()
		if err := s.Serve(theirs); err != nil {
			e.cfg.Log.Warn("the supervisor lost its connection", "error", err)
		}
	}()
	return ours, nil
}

func (e *Executor) wardenLog(format string, args ...any) {
	e.cfg.Log.Warn(fmt.Sprintf(format, args...))
}

// endedIdle reports whether a warden of this directory ended because it was idle.
func (e *Executor) endedIdle(wid uint64) bool {
	b, err := os.ReadFile(filepath.Join(e.runDir, warden.IdleName))
	if err != nil {
		return false
	}
	return slices.Contains(strings.Fields(string(b)), strconv.FormatUint(wid, 10))
}

// dialTimeout bounds the time that a running warden may take to dial.
const dialTimeout = 10 * time.Second

// dial waits for the warden to dial, and starts one if none runs.
func (e *Executor) dial(ctx context.Context, start bool) (wire.Conn, error) {
	pid, err := wardenexec.WardenPID(e.runDir)
	if err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "", "cannot look for the warden: %w", err)
	}
	if pid == 0 && !start {
		if start = e.leftBehind(); !start {
			return nil, wardenexec.ErrGone
		}
	}
	l, err := wardenexec.Listen(e.runDir)
	if err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "", "%w", err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for {
		if pid == 0 {
			if start = start || e.leftBehind(); !start {
				return nil, wardenexec.ErrGone
			}
			if err := e.startWarden(ctx); err != nil {
				return nil, err
			}
		}
		// A warden that was about to end does not dial: look again.
		attempt, done := context.WithTimeout(ctx, time.Second)
		conn, err := l.Accept(attempt, e.checkPeer)
		done()
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, corral.Errorf(corral.ErrUnavailable, "see "+filepath.Join(e.runDir, warden.LogName), "the warden does not answer: %w", err)
		}
		if pid, err = wardenexec.WardenPID(e.runDir); err != nil {
			return nil, corral.Errorf(corral.ErrUnavailable, "", "cannot look for the warden: %w", err)
		}
	}
}

// checkPeer accepts the process that holds the warden's lock.
func (e *Executor) checkPeer(cred *unix.Ucred) error {
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("a process of user %d dialled", cred.Uid)
	}
	pid, err := wardenexec.WardenPID(e.runDir)
	if err != nil {
		return err
	}
	if pid != int(cred.Pid) {
		return fmt.Errorf("process %d dialled, the warden is %d", cred.Pid, pid)
	}
	return nil
}

func (e *Executor) startWarden(ctx context.Context) error {
	path := e.cfg.WardenPath
	if path == "" {
		var err error
		if path, err = wardenbin.Find(filepath.Join(e.cfg.StateDir, "bin"), runtime.GOARCH); err != nil {
			return corral.Errorf(corral.ErrUnavailable, corral.Hint(err), "cannot start the warden: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, path, "-dir", e.runDir, "-host")
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	if err != nil {
		if _, exit := errors.AsType[*exec.ExitError](err); exit && len(out) > 0 {
			err = errors.New(string(out))
		}
		return corral.Errorf(corral.ErrUnavailable, "", "cannot start the warden %s: %w", path, err)
	}
	return nil
}
