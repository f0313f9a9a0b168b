package sandbox

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/sandbox/users"
)

// A setup is a configuration that is complete, with what follows from it. It
// does not change.
type setup struct {
	Config
	asked    Config // as it was given
	hash     string
	warnings []string // for every command
}

func newSetup(cfg Config) (*setup, error) {
	asked := cfg
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &setup{Config: cfg, asked: asked, hash: fmt.Sprintf("%x", sha256.Sum256(cfg.plan().Canonical()))}
	s.warnings = s.ownerWarning()
	return s, nil
}

// followOwner has commands run as the workspace's new owner, if it was given away since it was
// found to be no user's that commands can be.
func (e *Executor) followOwner() {
	old := e.set.Load()
	if len(old.warnings) == 0 {
		return
	}
	if set, err := newSetup(old.asked); err == nil && !slices.Equal(set.warnings, old.warnings) {
		e.set.CompareAndSwap(old, set)
	}
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

// planner plans commands of a configuration in containers of an image.
type planner struct {
	*setup
	*pathenv.Planner
}

// home is the home directory of commands.
func (s *setup) home() string {
	if s.Workspace.Access == AccessReadOnly {
		return "/tmp"
	}
	return s.workdir()
}

// ownHome is a home directory that is configured for commands, if /etc/passwd can have it.
func (c *Config) ownHome() string {
	if home := c.Environment.Variables["HOME"]; path.IsAbs(home) && !strings.ContainsAny(home, ":\n") {
		return home
	}
	return ""
}

// planner is for an image with an environment.
func (s *setup) planner(image []string) *planner {
	return &planner{s, pathenv.NewPlanner(pathenv.SandboxOptions{
		Config: s.Environment.Variables, PathPrepend: s.Environment.PathPrepend, Image: image,
		Home: s.home(), Keep: s.Environment.Keep, Profile: s.Environment.Profile,
	})}
}

// prepare turns a command into what the warden executes.
func (p *planner) prepare(cmd corral.Command) (pathenv.Plan, error) {
	plan, err := p.Plan(cmd)
	if err != nil {
		return pathenv.Plan{}, err
	}
	plan.Dir, plan.Snapshot = cmd.Dir, p.Environment.Snapshot
	if !strings.HasPrefix(plan.Dir, "/") {
		plan.Dir = path.Join(p.workdir(), plan.Dir)
	}
	var left []string
	plan.Notice, left = plan.Env.Report()
	plan.Warnings = append(append([]string(nil), p.warnings...), left...)
	return plan, nil
}

// prepare is planner.prepare for a box.
func (b *box) prepare(s *setup, cmd corral.Command) (pathenv.Plan, error) {
	p := b.planner.Load()
	if p == nil || p.setup != s {
		p = s.planner(b.Env)
		b.planner.Store(p)
	}
	plan, err := p.prepare(cmd)
	if err == nil && b.replaces.Swap(false) {
		plan.Warnings = append(plan.Warnings, s.newContainer())
	}
	return plan, err
}

// newContainer is for a caller that counts on a server that it started, or on a file in /tmp.
func (s *setup) newContainer() string {
	where := " outside of the workspace"
	if s.inMemory() {
		where = ""
	}
	return "The sandbox has a new container: what commands left running in the last one, and files that they wrote" + where + ", are not in it."
}
