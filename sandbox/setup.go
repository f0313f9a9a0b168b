package sandbox

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/sandbox/users"
)

// A setup is a configuration that is complete, with what follows from it. It
// does not change.
type setup struct {
	Config
	hash     string
	warnings []string // for every command

	// What commands that ask for nothing special are started with.
	plainShell, plainArgs func() (pathenv.Plan, error)
}

func newSetup(cfg Config) (*setup, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &setup{Config: cfg, hash: fmt.Sprintf("%x", sha256.Sum256(cfg.plan().Canonical()))}
	s.warnings = s.ownerWarning()
	s.plainShell = sync.OnceValues(func() (pathenv.Plan, error) { return s.newLaunch(corral.Command{Shell: plainText}) })
	s.plainArgs = sync.OnceValues(func() (pathenv.Plan, error) { return s.newLaunch(corral.Command{Args: []string{plainText}}) })
	return s, nil
}

// ownerWarning says when files will not have the owner that one would expect.
func (s *setup) ownerWarning() []string {
	if s.Workspace.Access != AccessReadWrite {
		return nil
	}
	if user := users.Parse(s.Isolation.User).UID; s.Workspace.Dir != "" {
		if owner, ok := users.OwnerOf(s.Workspace.Dir); ok && owner.UID != user {
			return []string{fmt.Sprintf("The workspace %s belongs to user %d, and commands run as user %d: they may not be able to write to it, unless it is given to them (chown -R %s %s).", s.Workspace.Dir, owner.UID, user, s.Isolation.User, s.Workspace.Dir)}
		}
	}
	return nil
}

// prepare turns a command into what the warden executes.
func (s *setup) prepare(_ context.Context, cmd corral.Command) (pathenv.Plan, error) {
	p, err := s.launch(cmd)
	if err != nil {
		return pathenv.Plan{}, err
	}
	p.Dir, p.Snapshot = cmd.Dir, s.Environment.Snapshot
	if !strings.HasPrefix(p.Dir, "/") {
		p.Dir = path.Join(s.workdir(), p.Dir)
	}
	var left []string
	p.Notice, left = p.Env.Report()
	p.Warnings = append(append([]string(nil), s.warnings...), left...)
	return p, nil
}

// launch is what a command is started with, without its directory.
func (s *setup) launch(cmd corral.Command) (pathenv.Plan, error) {
	if len(cmd.Env) > 0 || len(cmd.PathPrepend) > 0 || cmd.TTY != nil {
		return s.newLaunch(cmd)
	}
	// All others have the same environment, so it is made once.
	if cmd.Shell == "" {
		l, err := s.plainArgs()
		l.Args = cmd.Args
		return l, err
	}
	l, err := s.plainShell()
	if err == nil {
		last := len(l.Args) - 1
		l.Args = append(slices.Clip(l.Args[:last]), strings.TrimSuffix(l.Args[last], plainText)+cmd.Shell)
	}
	return l, err
}

// plainText stands for the text of any command.
const plainText = ":"

func (s *setup) newLaunch(cmd corral.Command) (pathenv.Plan, error) {
	home := s.workdir()
	if s.Workspace.Access == AccessReadOnly {
		home = "/tmp"
	}
	return pathenv.Sandbox(pathenv.SandboxOptions{
		Shell: cmd.Shell, Args: cmd.Args, Config: s.Environment.Variables, Call: cmd.Env,
		PathPrepend: append(append([]string(nil), cmd.PathPrepend...), s.Environment.PathPrepend...),
		Home:        home, Keep: s.Environment.Keep, Profile: s.Environment.Profile, TTY: cmd.TTY != nil,
	})
}
