//go:build unix

package pathenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"time"
)

// AccountHome is the home directory of this process's user in the system's account
// database. HOME does not matter.
func AccountHome() (string, error) {
	// Not user.Current, which may use HOME.
	account, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		return "", fmt.Errorf("cannot find the home directory of this account: %w", err)
	}
	return account.HomeDir, nil
}

// runLoginShell returns the shell's output up to the end mark of probeText, or all of
// it. It waits neither for the shell to exit nor for its output to be closed, since a
// profile may leave processes that hold it open.
func runLoginShell(ctx context.Context, shell string, args, env []string) ([]byte, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()

	cmd := exec.Command(shell, args...)
	cmd.Env = env
	cmd.Stdout = w // an *os.File: no goroutine copies, and Wait waits for the shell alone
	cmd.Dir = "/"  // hooks of a profile must not read the daemon's directory
	// In a session of its own it has no terminal for questions, and can be killed as a
	// whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return nil, err
	}
	out, err := readAnswer(ctx, r)
	if err != nil {
		askToEnd(cmd.Process.Pid, r)
	}
	// The shell is not reaped yet, so its id still names its group.
	killSession(cmd.Process.Pid)
	if waitErr := cmd.Wait(); err == nil && !answered(out) {
		if exit := (*exec.ExitError)(nil); waitErr != nil && !errors.As(waitErr, &exit) {
			err = waitErr
		} else {
			err = fmt.Errorf("its output ended (%v) before it had run the command", cmd.ProcessState)
		}
	}
	return out, err
}

// readAnswer reads up to the end mark, the end of the output, or the end of ctx.
func readAnswer(ctx context.Context, r *os.File) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() {
		// Pipes have deadlines on every Unix. If this one has none, closing it
		// ends the read too.
		if r.SetReadDeadline(time.Unix(1, 0)) != nil {
			r.Close()
		}
	})
	defer stop()
	var out []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		out = append(out, buf[:n]...)
		switch {
		case answered(out[max(0, len(out)-n-1):]):
			return out, nil
		case len(out) > probeLimit:
			return nil, fmt.Errorf("it printed more than %d bytes", probeLimit)
		case errors.Is(err, io.EOF):
			return out, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("it did not answer in time: %w", context.Cause(ctx))
		case err != nil:
			return nil, err
		}
	}
}

// endLimit is how long a profile has to clean up when it is ended in its middle.
const endLimit = time.Second

// askToEnd ends a shell in the middle of its profile, so that programs of the profile can
// release their locks: a lock that stays may stop every later login. It waits until the
// output is closed, which is when all of them have ended, but not for longer than endLimit.
func askToEnd(group int, r *os.File) {
	syscall.Kill(-group, syscall.SIGTERM)
	if r.SetReadDeadline(time.Now().Add(endLimit)) == nil {
		_, _ = io.Copy(io.Discard, r) // it ends by the end of the output, or by the deadline
	}
}

// answered reports whether out has the end mark: two NUL bytes in a row. No variable is
// empty, so the mark cannot be part of the environment.
func answered(out []byte) bool { return bytes.Contains(out, []byte{0, 0}) }
