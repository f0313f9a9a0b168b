package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/engine"
)

// Exec implements engine.ExecEngine. It returns once the command runs, or has
// run. An error that is not corral.ErrLost means that nothing ran; beside those
// of an engine it is
//
//   - engine.ErrNoContainer, if the container is not there or does not run;
//   - corral.ErrDir, if the working directory cannot be used;
//   - a *engine.ExecFailure, if the program cannot be executed;
//   - errors.ErrUnsupported, for bytes that are not UTF-8: the engine takes
//     arguments and variables as JSON.
//
// The command outlives ctx.
func (e *Engine) Exec(ctx context.Context, id string, cmd engine.ExecSpec) (engine.Exec, error) {
	if err := checkText(cmd); err != nil {
		return nil, err
	}
	env, err := e.exactEnv(ctx, id, cmd)
	if err != nil {
		return nil, err
	}
	opts := container.ExecOptions{
		Cmd: cmd.Args, Env: env, WorkingDir: cmd.Dir, User: cmd.User, Tty: cmd.TTY,
		// A terminal without standard input attached has none at all.
		AttachStdin: cmd.Stdin || cmd.TTY, AttachStdout: true, AttachStderr: true,
	}
	if !cmd.TTY {
		return e.exec(ctx, id, opts)
	}
	opts.DetachKeys = detachKeys
	opts.ConsoleSize = &[2]uint{uint(cmd.Rows), uint(cmd.Cols)}
	if versions.GreaterThanOrEqualTo(e.c.ClientVersion(), "1.42") {
		return e.exec(ctx, id, opts)
	}
	// An older engine can size a terminal only once the command runs, which
	// may then have looked already. So a shell sets the size beforehand.
	sized := opts
	sized.Cmd = append([]string{shell, "-c", sizing, "sh", fmt.Sprint(cmd.Rows), fmt.Sprint(cmd.Cols)}, cmd.Args...)
	x, err := e.exec(ctx, id, sized)
	if failure, ok := errors.AsType[*engine.ExecFailure](err); ok && strings.Contains(failure.Text, shell) {
		x, err = e.exec(ctx, id, opts)
	}
	if err != nil {
		return nil, err
	}
	// For an image without stty; one that has it sees no change.
	_ = x.Resize(ctx, cmd.Rows, cmd.Cols)
	return x, nil
}

const (
	shell  = "/bin/sh"
	sizing = `stty rows "$1" cols "$2" 2>/dev/null; shift 2; exec "$@"`

	// detachKeys must not be typed by accident: the engine takes them out of
	// a terminal's input, and holds each back until the next key is another
	// one. The default, ctrl-p ctrl-q, begins with a key that people use.
	detachKeys = "ctrl-@,ctrl-^,ctrl-@,ctrl-_,ctrl-@,ctrl-^,ctrl-@,ctrl-_"
)

func checkText(cmd engine.ExecSpec) error {
	for _, list := range [][]string{cmd.Args, cmd.Env, {cmd.Dir}} {
		for _, s := range list {
			if !utf8.ValidString(s) {
				return corral.Errorf(corral.ErrInvalid, "write such bytes in a file, or use the sandbox driver fds or frames",
					"the Docker engine cannot pass on bytes that are not UTF-8: %.40q: %w", s, errors.ErrUnsupported)
			}
		}
	}
	return nil
}

// exactEnv is the command's environment with orders to remove what the engine
// would add: the container's variables, and some of its own.
func (e *Engine) exactEnv(ctx context.Context, id string, cmd engine.ExecSpec) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	c, err := e.inspect(ctx, id)
	if err != nil {
		return nil, e.execError(ctx, id, err)
	}
	env := append([]string(nil), cmd.Env...)
	has := map[string]bool{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		has[name] = true
	}
	for _, kv := range append([]string{"PATH", "HOSTNAME", "TERM"}, c.Config.Env...) {
		if name, _, _ := strings.Cut(kv, "="); !has[name] {
			has[name] = true
			env = append(env, name)
		}
	}
	return env, nil
}

// execError names an error before anything ran.
func (e *Engine) execError(ctx context.Context, id string, err error) error {
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("%w: %s", engine.ErrNoContainer, id)
	}
	if errdefs.IsConflict(err) || strings.Contains(err.Error(), "unable to upgrade") { // it has stopped, or does just now
		if c, ierr := e.Inspect(ctx, id); errors.Is(ierr, engine.ErrNoContainer) || ierr == nil && !c.Running {
			return fmt.Errorf("%w that runs: %s", engine.ErrNoContainer, id)
		}
	}
	return e.fail("run a command in the container "+id, err)
}

func (e *Engine) exec(ctx context.Context, id string, opts container.ExecOptions) (*execution, error) {
	dial, cancel := context.WithTimeout(ctx, longCall)
	defer cancel()
	made, err := e.c.ContainerExecCreate(dial, id, opts)
	if err != nil {
		return nil, e.execError(ctx, id, err)
	}
	h, err := hijack(dial, func(ctx context.Context) (types.HijackedResponse, error) { // which starts the command
		return e.c.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{Tty: opts.Tty, ConsoleSize: opts.ConsoleSize})
	})
	switch {
	case err == nil:
	case client.IsErrConnectionFailed(err), strings.Contains(err.Error(), "unable to upgrade"), strings.Contains(err.Error(), "cannot connect"):
		return nil, e.execError(ctx, id, err)
	default:
		return nil, maybeStarted(id, err)
	}
	x := &execution{e: e, id: made.ID, container: id, conn: h, eof: make(chan struct{})}
	if !opts.Tty {
		x.frames = &frames{r: h.Reader}
	}
	if err := x.awaitStart(dial); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// hijack connects to streams of the engine. The client waits for the engine's answer
// without looking at ctx.
func hijack(ctx context.Context, connect func(context.Context) (types.HijackedResponse, error)) (types.HijackedResponse, error) {
	type answer struct {
		h   types.HijackedResponse
		err error
	}
	got := make(chan answer)
	go func() {
		h, err := connect(ctx)
		select {
		case got <- answer{h, err}:
		case <-ctx.Done():
			if err == nil {
				h.Close()
			}
		}
	}()
	select {
	case a := <-got:
		return a.h, a.err
	case <-ctx.Done():
		return types.HijackedResponse{}, ctx.Err()
	}
}

func maybeStarted(id string, err error) error {
	return corral.Errorf(corral.ErrLost, "see what it did before starting it again", "a command in the container %s may have been started: %w", id, err)
}

// awaitStart waits until the command runs or has run. The engine's answer to
// the start says only that it will try; then what it could not do comes as the
// command's output, and no process has ever been there.
func (x *execution) awaitStart(ctx context.Context) error {
	for delay := 2 * time.Millisecond; ; delay = min(2*delay, 50*time.Millisecond) {
		now, err := x.e.c.ContainerExecInspect(ctx, x.id)
		switch {
		case err != nil:
			return maybeStarted(x.container, err)
		case now.Pid != 0:
			return nil
		case !now.Running && now.ExitCode != 0:
			return x.startFailure()
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return maybeStarted(x.container, ctx.Err())
		}
	}
}

const (
	maxFailure  = 16 << 10        // of an error text
	failureTime = 5 * time.Second // to read it: it has been written already
)

// startFailure reads why the command could not be started.
func (x *execution) startFailure() error {
	if err := x.conn.Conn.SetReadDeadline(time.Now().Add(failureTime)); err != nil {
		return err
	}
	var text []byte
	buf := make([]byte, 1<<10)
	for len(text) < maxFailure {
		n, _, err := x.Read(buf)
		text = append(text, buf[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return corral.Errorf(corral.ErrUnavailable, "", "the command could not be started, and the engine does not say why: %w", err)
		}
	}
	return startError(string(text))
}

// startError sorts what the engine says by what was the matter. The texts are
// those of runc, which other runtimes use as well:
// https://github.com/opencontainers/runc/blob/v1.1.5/libcontainer/setns_init_linux.go
func startError(text string) error {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.Join(strings.Fields(text), " ")
	for _, intro := range []string{"unable to start container process: ", "starting container process caused: "} {
		if _, rest, ok := strings.Cut(text, intro); ok {
			text = rest
		}
	}
	if i := strings.Index(text, ": Are you trying to mount"); i >= 0 { // the engine's advice, on something else
		text = text[:i]
	}
	text = strings.TrimSuffix(text, ": unknown")
	switch {
	case strings.HasPrefix(text, "chdir to cwd ("):
		return corral.Errorf(corral.ErrDir, "create it, or give another working directory", "cannot use the working directory: %s",
			strings.Replace(text, " set in config.json failed", "", 1))
	case !strings.HasPrefix(text, "exec"):
		return corral.Errorf(corral.ErrUnavailable, "", "cannot run a command in the container: %s", text)
	}
	text = strings.TrimPrefix(text, "exec: ")
	code := 126
	if strings.HasSuffix(text, "executable file not found in $PATH") || strings.HasSuffix(text, "no such file or directory") {
		code = 127
	}
	return &engine.ExecFailure{Code: code, Text: text}
}
