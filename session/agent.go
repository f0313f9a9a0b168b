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
	"github.com/corral-exec/corral/runner"
)

// An Agent has sessions. It is a corral.Executor: its processes are sessions in the
// background that send no notification.
type Agent struct {
	m    *Manager
	name string
}

// Agent returns the agent of a name that ValidateAgent accepts.
func (m *Manager) Agent(name string) Agent { return Agent{m: m, name: name} }

// Agents are the names of those that have sessions, sorted.
func (m *Manager) Agents() []string {
	names := map[string]bool{}
	for _, s := range m.all() {
		names[s.start.Agent] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Name is the agent's.
func (a Agent) Name() string { return a.name }

// Options of a session.
type Options struct {
	// Command is what to run. With an ID that the caller chose, beginning
	// again returns the session that there is, and the session is kept
	// (Keep); without, a readable ID is made.
	Command corral.Command
	// Background begins it in the background. Otherwise it is in the
	// foreground of a call of Yield that is to follow.
	Background bool
	// NotifyOnExit makes an Event of its end in the background.
	NotifyOnExit bool
	// Keep keeps the session also if it ends in the foreground.
	Keep bool
	// RunningNotice is how long after its start an Event says that it runs.
	// 0: none does.
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
	for i, s := range mine { // of whom some may be away
		asking.Go(func() { list[i] = s.Status(ctx) })
	}
	asking.Wait()
	slices.SortFunc(list, func(x, y Status) int { return y.StartedAt.Compare(x.StartedAt) })
	return list
}

// Begin starts a command. On error nothing was started, unless the error is
// ErrLost: then the session is returned with it, and says what became of the
// command as soon as the executor can be reached.
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

// WithBegun is a context in which Begin calls told with the session that it returns.
// It is for callers of a tool who want to see the session before the tool's result.
func WithBegun(ctx context.Context, told func(*Session)) context.Context {
	return context.WithValue(ctx, begunKey{}, told)
}

// begin is one try of Begin: again says that what was in the way is gone.
func (a Agent) begin(ctx context.Context, o Options) (s *Session, again bool, err error) {
	cmd := o.Command
	start := begun{
		Agent: a.name, Text: shortened(text(cmd)), For: cmd.Description, TTY: cmd.TTY != nil, Stdin: cmd.Stdin, Merged: cmd.MergeStderr || cmd.TTY != nil,
		Grace: cmd.Grace, At: time.Now().UTC(), Background: o.Background, Notify: o.NotifyOnExit, Keep: o.Keep,
		Key: keyFrom(ctx).Name, Approval: cmd.Approval, Notice: o.RunningNotice,
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

// beginAgain is for an ID that is in the table.
func (a Agent) beginAgain(ctx context.Context, old, s *Session, cmd corral.Command) (_ *Session, again bool, err error) {
	if old.start.Digest == "" || s.start.Digest == "" { // made by us, and drawn again: it has 40 random bits
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

// MaxText bounds Status.Command, in bytes, of which a longer one is not kept whole: thousands are kept
// in memory and listed.
const MaxText = 16 << 10

// shortened is a text with its middle left out, if it is long.
func shortened(s string) string {
	if len(s) <= MaxText {
		return s
	}
	e := runner.Excerpt{Head: s[:MaxText/2], Tail: s[len(s)-MaxText/2:], Omitted: int64(len(s) - MaxText)}
	return strings.ToValidUTF8(e.String(), "�")
}

// digest tells a command that an ID belongs to from others. What is not about
// the command but about who is there at the moment is not in it: whether there
// is input, how much of the output is kept, and how large the terminal is.
func digest(cmd corral.Command) string {
	cmd.Stdin, cmd.Log = false, corral.LogLimit{}
	if cmd.TTY != nil {
		cmd.TTY = &corral.Size{}
	}
	return cmd.Digest()
}

// other describes the command of old, which has the ID that s was to have. It tells
// nothing about commands of other agents.
func (a Agent) other(old, s *Session, cmd corral.Command) string {
	if old.start.Agent != a.name || old.start.Text != s.start.Text || len(text(cmd)) > MaxText { // the middle of it is not known
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

// text is how a command is shown.
func text(cmd corral.Command) string {
	if cmd.Shell != "" {
		return cmd.Shell
	}
	var b []byte
	for i, arg := range cmd.Args {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, quote(arg)...)
	}
	return string(b)
}
