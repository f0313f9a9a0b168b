package sshexec

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/streamexec"
	"github.com/corral-exec/corral/pathenv"
)

// warning is a warning of every process.
const warning = "This node is reached by SSH, without a supervisor there: what runs is lost when the connection is cut or the gateway ends, and its time-out with it."

// Prepare implements streamexec.Place.
func (h *host) Prepare(ctx context.Context, cmd corral.Command) (streamexec.Job, error) {
	// Connect here, where the caller can give up.
	if err := h.connect(ctx); err != nil {
		return streamexec.Job{}, err
	}
	l, info, err := h.launch(ctx, cmd)
	if err != nil {
		return streamexec.Job{}, err
	}
	info.Host, info.Node, info.Dir = corral.HostNode, h.node(), cmd.Dir
	info.Warnings = append(info.Warnings, warning)
	return streamexec.Job{Info: info, Start: func(ctx context.Context, info *corral.Info) (streamexec.Stream, error) {
		l.vars = append(slices.Clone(l.vars), processVariable+"="+token(*info))
		return h.start(ctx, l, info)
	}}, nil
}

// launch returns the data for the script, and an Info with the Notice and the Warnings.
func (h *host) launch(ctx context.Context, cmd corral.Command) (launch, corral.Info, error) {
	l := launch{Command: cmd}
	for _, name := range slices.Sorted(maps.Keys(cmd.Env)) {
		if strings.ContainsAny(name, "()") {
			return l, corral.Info{}, corral.Errorf(corral.ErrDenied, "use letters, digits and underscores", "cannot set %s on %s: a shell there has no such variable", name, h.node())
		}
	}
	call, warnings, err := pathenv.NodeRequest(pathenv.NodeRequestOptions{Call: cmd.Env, PathPrepend: cmd.PathPrepend})
	if err != nil {
		return l, corral.Info{}, err
	}
	o := pathenv.NodeOptions{Call: call, Profile: h.all.cfg.Profile, TTY: cmd.TTY != nil, GOOS: "linux"}
	_, sets := call["PATH"]
	if sets {
		p, err := h.ownPaths(ctx)
		if err != nil {
			return l, corral.Info{}, err
		}
		o.Inherited, o.LoginPath = []string{"PATH=" + p.session}, p.login
	}
	env, err := pathenv.Node(o)
	if err != nil {
		return l, corral.Info{}, err
	}
	var dirs []string
	if sets {
		dirs = env.PathDirs()
	}
	switch {
	case len(cmd.Decided.Exec) > 0:
		l.Args = cmd.Decided.Exec
	case cmd.Shell != "":
		login := env.LoginShell(cmd.Shell, dirs)
		l.Args, env = login.Args, login.Env
	}
	for _, kv := range env.Vars {
		if sets || !strings.HasPrefix(kv, "PATH=") {
			l.vars = append(l.vars, kv)
		}
	}
	notice, left := env.Report()
	return l, corral.Info{Notice: notice, Warnings: append(warnings, left...)}, nil
}

// processVariable marks the processes of a command, so that they can be found.
const processVariable = "CORRAL_PROCESS"

// token is its value: unique for each command, and derived from the command's record.
func token(info corral.Info) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", info.Node, info.ID, info.StartedAt.UnixNano()))
	return hex.EncodeToString(sum[:16])
}

// window is a terminal's size in the form of RFC 4254.
type window struct{ Columns, Rows, Width, Height uint32 }

func windowOf(s corral.Size) window {
	s.Rows = cmp.Or(s.Rows, corral.DefaultSize.Rows)
	s.Cols = cmp.Or(s.Cols, corral.DefaultSize.Cols)
	return window{Columns: uint32(s.Cols), Rows: uint32(s.Rows)}
}

// rawModes make a terminal pass the script unchanged and without an echo (RFC 4254,
// section 8). The script sets the usual modes again. One of them is for the command, as
// with ssh: Backspace erases a whole character (RFC 8160).
var rawModes = func() string {
	var b []byte
	for _, off := range []uint8{
		ssh.ISTRIP, ssh.INLCR, ssh.IGNCR, ssh.ICRNL, ssh.IXON, ssh.IXANY, ssh.IXOFF,
		ssh.ISIG, ssh.ICANON, ssh.ECHO, ssh.IEXTEN,
	} {
		b = append(b, off, 0, 0, 0, 0)
	}
	b = append(b, ssh.IUTF8, 0, 0, 0, 1)
	return string(append(b, 0))
}()

// start runs a command.
func (h *host) start(ctx context.Context, l launch, info *corral.Info) (streamexec.Stream, error) {
	c, ch, requests, err := h.open(ctx, false)
	if err != nil {
		return nil, err
	}
	defer h.all.owned.Done()
	m := newMarks()
	s := h.newSession(c, ch, requests, m, l.TTY == nil)
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.begin(ctx, l, m, info); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.info = *info
	return s, nil
}

// begin asks the server to run a command, and waits for the report that it is about to
// begin.
func (s *session) begin(ctx context.Context, l launch, m marks, info *corral.Info) error {
	if err := s.request(l); err != nil {
		return err
	}
	// A server may end the session before it has read the script; then nothing begins.
	// The output below shows why.
	script := l.script(m)
	n, werr := s.Write([]byte(script))
	if !l.Stdin && l.TTY == nil {
		_ = s.CloseWrite() // a lost connection shows below
	}
	select {
	case text, ok := <-s.report:
		if ok {
			return s.reported(text, l.Dir, info)
		}
	case <-ctx.Done():
		return s.maybe(ctx.Err())
	}
	if len(s.noise.seen) > maxPreamble {
		return s.maybe(errPreamble)
	}
	select {
	case <-s.ended:
	case <-ctx.Done():
		return s.maybe(ctx.Err())
	}
	switch {
	case s.err != nil && n < len(script):
		return corral.Errorf(corral.ErrUnavailable, "", "cannot start a command on %s: the connection was lost: %w", s.h.node(), werr)
	case s.err != nil:
		return s.maybe(s.err)
	}
	return corral.Errorf(corral.ErrUnavailable, "see whether ssh "+s.h.name+" '/bin/sh -c true' works as the gateway's user",
		"%s ends sessions before a command begins, with %v; it says %s", s.h.node(), s.exit, firstLine(s.noise.seen))
}

// request asks for a shell that reads the script.
func (s *session) request(l launch) error {
	if l.TTY != nil {
		term := "xterm-256color"
		for _, kv := range l.vars {
			if v, ok := strings.CutPrefix(kv, "TERM="); ok {
				term = v
			}
		}
		w := windowOf(*l.TTY)
		ok, err := s.SendRequest("pty-req", true, ssh.Marshal(struct {
			Term                         string
			Columns, Rows, Width, Height uint32
			Modes                        string
		}{term, w.Columns, w.Rows, w.Width, w.Height, rawModes}))
		switch {
		case err != nil:
			return corral.Errorf(corral.ErrUnavailable, "", "cannot start a command on %s: the connection was lost: %w", s.h.node(), err)
		case !ok:
			return corral.Errorf(errors.ErrUnsupported, "see PermitTTY in its sshd_config, or run the command without a terminal", "%s gives no terminal", s.h.node())
		}
	}
	ok, err := s.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{bootstrap}))
	switch {
	case err != nil:
		return corral.Errorf(corral.ErrUnavailable, "", "cannot start a command on %s: the connection was lost: %w", s.h.node(), err)
	case !ok:
		return corral.Errorf(corral.ErrUnavailable, "see what its sshd_config allows this user", "%s executes no commands", s.h.node())
	}
	return nil
}

// reported handles the report of the script.
func (s *session) reported(text, wanted string, info *corral.Info) error {
	if text != "" {
		switch text[0] {
		case reportStarts:
			if pid, dir, ok := started(text); ok {
				info.PID, info.Dir = pid, dir
				return nil
			}
		case reportDir:
			return corral.Errorf(corral.ErrDir, "make it, or name another", "cannot run a command in %q on %s: %s", wanted, s.h.node(), firstLine([]byte(text[1:])))
		case reportNoTerminal:
			return corral.Errorf(errors.ErrUnsupported, "install stty there, or run the command without a terminal", "cannot set up a terminal on %s: there is no stty, or it fails", s.h.node())
		}
	}
	return s.maybe(fmt.Errorf("it reports %.100q", text))
}

// maybe returns the error of a start with an unknown result.
func (s *session) maybe(cause error) error {
	return corral.Errorf(corral.ErrLost, "starting it again may do it twice", "%s did not say whether a command was started: %w", s.h.node(), cause)
}
