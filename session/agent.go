package session

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/runner"
)

// An Agent has sessions. It is a corral.Executor: its processes are background sessions
// without notifications.
type Agent struct {
	m    *Manager
	name string
}

// Agent returns the agent with that name. Check the name with ValidateAgent first.
func (m *Manager) Agent(name string) Agent { return Agent{m: m, name: name} }

// Agents returns the names of the agents that have sessions, sorted.
func (m *Manager) Agents() []string {
	names := map[string]bool{}
	for _, s := range m.all() {
		names[s.start.Agent] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Name returns the agent's name.
func (a Agent) Name() string { return a.name }

// Options configure a session.
type Options struct {
	// Command is what to run. With an ID from the caller, beginning again returns the
	// existing session, and the session is kept (Keep). Without one, a readable ID is
	// made.
	Command corral.Command
	// Background begins it in the background. Otherwise a call of Yield has to follow,
	// which has the session in its foreground.
	Background bool
	// NotifyOnExit makes an Event when it ends in the background.
	NotifyOnExit bool
	// Keep keeps the session even if it ends in the foreground.
	Keep bool
	// Linger is how long after its end Retention spares it, which its caller may ask for
	// once more.
	Linger time.Duration
	// RunningNotice is the time after the start at which an Event says that the session
	// still runs. 0: no such event.
	RunningNotice time.Duration
}

// Start begins a session in the background; see corral.Executor.
func (a Agent) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	s, err := a.Begin(ctx, Options{Command: cmd, Background: true})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Attach returns a session; see corral.Executor.
func (a Agent) Attach(ctx context.Context, id string) (corral.Process, error) {
	s, err := a.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := s.attached(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Session returns the agent's session with that ID, or ErrNotFound.
func (a Agent) Session(id string) (*Session, error) {
	a.m.mu.Lock()
	s := a.m.sessions[id]
	a.m.mu.Unlock()
	if s == nil || s.start.Agent != a.name {
		return nil, corral.Errorf(corral.ErrNotFound, "list the sessions there are", "no session found for %s", id)
	}
	return s, nil
}

// List describes the agent's sessions, the newest first.
func (a Agent) List(ctx context.Context) []Status {
	mine := slices.DeleteFunc(a.m.all(), func(s *Session) bool { return s.start.Agent != a.name })
	list := make([]Status, len(mine))
	var asking sync.WaitGroup
	for i, s := range mine { // some hosts may be slow to answer
		asking.Go(func() { list[i] = s.Status(ctx) })
	}
	asking.Wait()
	slices.SortFunc(list, func(x, y Status) int { return y.StartedAt.Compare(x.StartedAt) })
	return list
}

// Begin starts a command. On error nothing was started, except with ErrLost: then Begin
// also returns the session. The session learns the outcome of the command when the
// executor can be reached again.
func (a Agent) Begin(ctx context.Context, o Options) (*Session, error) {
	if err := ValidateAgent(a.name); err != nil {
		return nil, err
	}
	if err := o.Command.Validate(); err != nil {
		return nil, err
	}
	if a.m.isDraining() {
		return nil, errDraining
	}
	for {
		s, again, err := a.begin(ctx, o)
		if !again {
			if told, ok := ctx.Value(begunKey{}).(func(*Session)); ok && err == nil {
				told(s)
			}
			return s, err
		}
	}
}

type begunKey struct{}

// WithBegun returns a context in which Begin calls told with its session. It is for
// callers of a tool that need the session before the tool's result.
func WithBegun(ctx context.Context, told func(*Session)) context.Context {
	return context.WithValue(ctx, begunKey{}, told)
}

// begin is one attempt of Begin; again reports that an obstacle is gone and Begin can
// retry.
func (a Agent) begin(ctx context.Context, o Options) (s *Session, again bool, err error) {
	cmd := o.Command
	start := begun{
		Origin: origin.New(a.name, shortened(text(cmd)), cmd), For: cmd.Description, At: time.Now().UTC(), Background: o.Background, Notify: o.NotifyOnExit, Keep: o.Keep,
		Key: keyFrom(ctx).Name, Approval: cmd.Approval, Notice: o.RunningNotice, Linger: o.Linger,
	}
	if cmd.ID == "" {
		cmd.ID, cmd.Decided.Fresh = NewID(), true
	} else {
		start.Digest, start.Keep = digest(cmd), true
	}
	s = newSession(a.m, cmd.ID, start)
	old, err := a.m.add(ctx, s)
	if err != nil {
		return nil, false, err
	}
	if old != nil {
		return a.beginAgain(ctx, old, s, cmd)
	}
	err = s.begin(ctx, cmd)
	if err != nil && !errors.Is(err, corral.ErrLost) {
		return nil, false, err
	}
	return s, false, err
}

// beginAgain handles an ID that is in the table already.
func (a Agent) beginAgain(ctx context.Context, old, s *Session, cmd corral.Command) (_ *Session, again bool, err error) {
	if old.start.Digest == "" || s.start.Digest == "" { // a generated ID with 40 random bits collided
		return nil, s.start.Digest == "", corral.Errorf(corral.ErrConflict, "use another id", "the id %s is in use", s.id)
	}
	if old.start.Agent != a.name || old.start.Digest != s.start.Digest {
		return nil, false, corral.Errorf(corral.ErrConflict, "use another id, or leave it out", "the id %s belongs to %s", s.id, a.other(old, s, cmd))
	}
	switch err := old.attached(ctx); {
	case errors.Is(err, corral.ErrNotFound): // it never began
		return nil, true, old.forget(ctx)
	case err != nil:
		return nil, false, err
	}
	return old, false, nil
}

// MaxText bounds Status.Command, in bytes: thousands of them are kept in memory
// and listed.
const MaxText = 16 << 10

// shortened cuts the middle out of a long text.
func shortened(s string) string {
	if len(s) <= MaxText {
		return s
	}
	e := runner.Excerpt{Head: s[:MaxText/2], Tail: s[len(s)-MaxText/2:], Omitted: int64(len(s) - MaxText)}
	return strings.ToValidUTF8(e.String(), "�")
}

// digest tells whether an ID belongs to the same command. It leaves out settings that
// depend on the caller's situation and not on the command: whether there is input, how
// much output is kept, and the size of the terminal.
func digest(cmd corral.Command) string {
	cmd.Stdin, cmd.Log = false, corral.LogLimit{}
	if cmd.TTY != nil {
		cmd.TTY = &corral.Size{}
	}
	return cmd.Digest()
}

// other describes the command of old, which already has the ID of s. It reveals nothing
// about commands of other agents.
func (a Agent) other(old, s *Session, cmd corral.Command) string {
	if old.start.Agent != a.name || old.start.Command != s.start.Command || len(text(cmd)) > MaxText { // the middle of a long command was not kept
		return "another command"
	}
	switch dir := old.Info().Dir; {
	case old.start.TTY && !s.start.TTY:
		return "the same command on a terminal"
	case !old.start.TTY && s.start.TTY:
		return "the same command without a terminal"
	case filepath.IsAbs(cmd.Dir) && dir != "" && dir != filepath.Clean(cmd.Dir):
		return "the same command in another directory, " + dir
	}
	return "the same command with another environment, PATH, time-out or working directory"
}

// text is the command for display.
func text(cmd corral.Command) string {
	if cmd.Shell != "" {
		return cmd.Shell
	}
	quoted := make([]string, len(cmd.Args))
	for i, arg := range cmd.Args {
		quoted[i] = words.Quote(arg)
	}
	return strings.Join(quoted, " ")
}
