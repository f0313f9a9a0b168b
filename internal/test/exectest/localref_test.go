//go:build linux

package exectest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/turn"
)

// localref is a small executor of this machine, written to show that the cases
// can be passed, and with a defect built in, that they can fail. An executor
// is a view of a world; the world outlives it.
type localref struct{ *world }

type world struct {
	workspace string
	logs      string // a directory
	shell     string
	cred      *syscall.Credential

	// defect, if not empty, is what this one does wrong.
	defect string

	mu    sync.Mutex
	procs map[string]*refProcess

	all  []*refProcess // also those removed
	work sync.WaitGroup
	over chan struct{} // closed when it ends

	sound atomic.Bool // no defect any more, for the clean-up
}

// bad reports whether the world has that defect. The names of all defects are
// in the table of mutants_test.go.
func (w *world) bad(defect string) bool { return w.defect == defect && !w.sound.Load() }

var refEnv = map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}

// refToken is the variable by which descendants are found.
const refToken = "CORRAL_REF_ID"

func newWorld(t testing.TB, workspace string) *world {
	w := &world{workspace: workspace, logs: t.TempDir(), shell: "/bin/sh", procs: map[string]*refProcess{}, over: make(chan struct{})}
	t.Cleanup(w.end)
	return w
}

// end kills what runs or holds an output and waits for everything that looked after it.
func (w *world) end() {
	w.mu.Lock()
	close(w.over)
	w.sound.Store(true)
	all := slices.Clone(w.all)
	w.mu.Unlock() // what is waited for may need it: a time-out that is over just now
	for _, p := range all {
		if !p.ended() || !p.drained.Load() {
			_ = p.signalTree(syscall.SIGKILL) // gone meanwhile: fine
		}
	}
	w.work.Wait()
}

func (x *localref) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	if err := ctx.Err(); err != nil && !x.bad("starts although cancelled") {
		return nil, err
	}
	if err := cmd.Validate(); err != nil && !x.bad("does not validate") {
		return nil, err
	}
	if x.bad("gives everything a terminal") {
		cmd.TTY = &corral.Size{}
	}
	if cmd.ID == "" {
		cmd.ID = corral.NewID()
		if x.bad("makes up bad ids") {
			cmd.ID = "-" + cmd.ID[:1]
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.bad("starts an id twice") {
		delete(x.procs, cmd.ID)
	}
	if p := x.procs[cmd.ID]; p != nil {
		if !reflect.DeepEqual(p.cmd, cmd) && !x.bad("ignores conflicts") {
			return nil, corral.Errorf(corral.ErrConflict, "use another id", "start %s: the id belongs to another command", cmd.ID)
		}
		return p, nil
	}
	p, err := x.start(cmd)
	if err != nil {
		return nil, err
	}
	if x.bad("kills with the context of Start") {
		context.AfterFunc(ctx, func() { _ = p.signalTree(syscall.SIGKILL) })
	}
	x.procs[cmd.ID] = p
	return p, nil
}

func (x *localref) Attach(_ context.Context, id string) (corral.Process, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.procs[id]
	switch {
	case p == nil && x.bad("attaches to anything"):
		return x.start(corral.Command{ID: "made-up", Shell: "true"})
	case p == nil, x.bad("forgets what ended") && p.ended(), x.bad("finds nothing"):
		return nil, corral.Errorf(corral.ErrNotFound, "", "attach to %q: no such process", id)
	}
	return p, nil
}

// start runs a command that is valid and new. The world is locked, so that no
// other fork gets at the command's ends of its pipes.
func (w *world) start(cmd corral.Command) (*refProcess, error) {
	p := &refProcess{world: w, cmd: cmd, writing: turn.New(), busy: turn.New(), done: make(chan struct{}), ends: make(chan os.Signal)}
	p.info = corral.Info{ID: cmd.ID, Host: corral.HostGateway, StartedAt: time.Now(), Digest: cmd.Digest()}
	if w.bad("does not tell what it started") {
		p.info.Digest = ""
	}
	dir, err := w.dir(cmd.Dir)
	if err != nil {
		return nil, err
	}
	p.info.Dir = dir
	if p.log, err = newRefLog(w, cmd.ID, cmd.Log); err != nil {
		return nil, err
	}
	env := w.environ(cmd)
	argv := cmd.Args
	if cmd.Shell != "" {
		argv = []string{w.shell, "-c", cmd.Shell}
		if w.bad("makes one line of shell text") {
			argv[2] = strings.ReplaceAll(cmd.Shell, "\n", " ")
		}
		if w.bad("expands PathPrepend in the shell") && len(cmd.PathPrepend) > 0 {
			argv[2] = fmt.Sprintf("PATH=\"%s:$PATH\"; %s", strings.Join(cmd.PathPrepend, ":"), cmd.Shell)
		}
	}
	if w.bad("splits arguments at spaces") {
		argv = append(argv[:1:1], strings.Fields(strings.Join(argv[1:], " "))...)
	}
	if w.bad("cuts arguments") {
		for i, a := range argv {
			argv[i] = a[:min(len(a), 4096)]
		}
	}
	if len(argv) == 0 {
		return nil, errors.New("no command")
	}
	from := dir
	if w.bad("looks programs up from the workspace") {
		from = w.workspace
	}
	program, code := lookup(argv[0], from, envValue(env, "PATH"))
	if w.bad("uses our PATH") && code == 127 {
		if found, err := exec.LookPath(argv[0]); err == nil {
			program, code = found, 0
		}
	}
	if code == 0 {
		err := p.fork(program, argv, env)
		switch {
		case err == nil:
			return p, nil
		case errors.Is(err, syscall.ENOENT):
			code = 127
		default:
			code = 126
		}
	}
	if w.bad("makes an error of a missing program") {
		return nil, corral.Errorf(corral.ErrInvalid, "", "%s: not found", argv[0])
	}
	if !w.bad("says nothing about a missing program") {
		p.log.append(corral.Stderr, fmt.Appendf(nil, "%.200s: cannot be executed\n", argv[0]))
	}
	p.exit = corral.Exit{Code: code, Reason: corral.ReasonExited, StartedAt: p.info.StartedAt, EndedAt: time.Now()}
	if w.bad("exits with 1 for what cannot be executed") {
		p.exit.Code = 1
	}
	p.log.end()
	close(p.done)
	return p, nil
}

func (w *world) dir(dir string) (string, error) {
	if !filepath.IsAbs(dir) && !w.bad("ignores the workspace") {
		dir = filepath.Join(w.workspace, dir)
	}
	fi, err := os.Stat(dir)
	switch {
	case w.bad("does not check the directory"):
		return dir, nil
	case err != nil:
		return "", corral.Errorf(corral.ErrDir, "create it", "enter %s: %w", dir, err)
	case !fi.IsDir():
		return "", corral.Errorf(corral.ErrDir, "", "enter %s: not a directory", dir)
	case w.cred != nil && fi.Mode().Perm()&1 == 0 && fi.Sys().(*syscall.Stat_t).Uid != w.cred.Uid:
		return "", corral.Errorf(corral.ErrDir, "", "enter %s: permission denied", dir)
	case w.cred != nil && fi.Mode().Perm() == 0:
		return "", corral.Errorf(corral.ErrDir, "", "enter %s: permission denied", dir)
	}
	return dir, nil
}

var _ io.Closer = (*localref)(nil)

// Close does nothing: commands and their logs belong to the world.
func (x *localref) Close() error { return nil }
