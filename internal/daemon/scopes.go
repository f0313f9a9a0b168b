package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engines"
)

// mainSession is whose commands they are when a platform does not say in which
// conversation.
const mainSession = "main"

// ScopeKey tells sandboxes apart: by agent, by session of an agent, or not at
// all. A session whose name has its agent already stays as it is.
func ScopeKey(scope config.Scope, agent, session string) string {
	own := "agent:" + agent
	switch scope {
	case config.ScopeShared:
		return "shared"
	case config.ScopeSession:
		if strings.HasPrefix(session, own+":") {
			return session
		}
		return own + ":" + cmp.Or(session, mainSession)
	}
	return own
}

var (
	// agentNames are those of agents that name a sandbox as they are.
	agentNames = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$`)
	// hashedName is the end of a name that scopeName makes.
	hashedName = lazy.Regexp(`-[0-9a-f]{16}$`)
	noSlug     = lazy.Regexp(`[^a-z0-9]+`)
)

// maxSlug is how much of a key can be seen in a name.
const maxSlug = 32

// SandboxName is the name of the sandbox with a scope's key. That of an agent is
// the agent's, where that can be a sandbox's. Any other begins with what can be
// read of the key, and ends with a hash of it: no two keys have one name.
func SandboxName(scope config.Scope, agent, session string) string {
	key := ScopeKey(scope, agent, session)
	if scope != config.ScopeShared && scope != config.ScopeSession {
		if agentNames().MatchString(agent) && !hashedName().MatchString(agent) {
			return agent
		}
	}
	slug := noSlug().ReplaceAllString(strings.ToLower(key), "-")
	slug = strings.Trim(slug, "-")
	slug = strings.TrimRight(slug[:min(len(slug), maxSlug)], "-")
	sum := sha256.Sum256([]byte(key))
	return cmp.Or(slug, "session") + "-" + hex.EncodeToString(sum[:8])
}

// box returns the sandbox that the commands of an agent go to now, by its scope.
func (a *agentHosts) box(ctx context.Context) *lazySandbox {
	scope := a.hosts.policies.agent(a.name).Sandbox.Scope.Value
	caller := config.CallerFrom(ctx)
	if b, err := a.hosts.e2bBox(a.name, caller.Session); err == nil && b.ID != "" {
		return a.hosts.box(b.ID, a.name, ScopeKey(config.ScopeSession, a.name, caller.Session))
	}
	owner := a.name
	if scope == config.ScopeShared { // only the settings of all agents count
		owner = ""
	}
	return a.hosts.box(SandboxName(scope, a.name, caller.Session), owner, ScopeKey(scope, a.name, caller.Session))
}

// box returns a sandbox by its name. Its settings are those of an agent; if that
// is empty, those that are no agent's.
func (h *hosts) box(name, agent, key string) *lazySandbox {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.boxes[name]; l != nil && !l.retired.Load() {
		return l
	}
	l := &lazySandbox{
		stateDir: h.stateDir, name: name, owner: agent, got: time.Now(), next: func() *lazySandbox { return h.box(name, agent, key) },
		options: func() SandboxOptions {
			settings := h.opt.SettingsOf(h.policies.agent(agent))
			settings.Name, settings.Owner, settings.Key = name, agent, key
			h.likeE2B(&settings)
			o := h.sandboxOptions(settings)
			o.Admit = h.quotas.admit(h.stateDir, name, agent)
			h.mu.Lock()
			defer h.mu.Unlock()
			warm := h.warm
			if settings.Workspace.Home != "" {
				warm = h.warmE2B
			}
			if warm != nil && o.Engine == h.engineOf("") {
				o.Pool = warm.Containers()
			}
			return o
		},
		open: func(o SandboxOptions) (Executor, error) {
			h.log.Info("opening a sandbox", "agent", agent, "name", name)
			return h.opt.Backends.Sandbox(o)
		},
	}
	h.boxes[name] = l
	return l
}

// EngineRestart is what to do for another engine to count.
const EngineRestart = "start the gateway again (commands survive that)"

// engineOf is the engine of an agent's sandboxes: the one that was configured when
// these were opened. What runs at an engine could not be reached through another.
func (h *hosts) engineOf(agent string) string {
	c := h.policies.agent(agent)
	if h.began != nil {
		c = h.began.Agent(agent)
	}
	return cmp.Or(h.opt.SettingsOf(c).Engine, engines.Auto)
}

// otherEngine is an agent ("" for all others) for which another engine is
// configured by now.
func (h *hosts) otherEngine() (agent, began, now string, ok bool) {
	c := h.policies.live.Config()
	if h.began == nil || c.Err != nil {
		return "", "", "", false
	}
	for _, agent := range append([]string{""}, c.Agents()...) {
		began, now := h.engineOf(agent), cmp.Or(h.opt.SettingsOf(c.Agent(agent)).Engine, engines.Auto)
		if began != now {
			return agent, began, now, true
		}
	}
	return "", "", "", false
}

// followEngine says once that another engine is configured.
func (h *hosts) followEngine(said *string) {
	agent, began, now, ok := h.otherEngine()
	switch {
	case !ok:
		*said = ""
	case *said != agent+" "+now:
		*said = agent + " " + now
		h.log.Warn("another engine of sandboxes is configured, which counts only when the gateway is started again", "agent", agent, "engine", began, "configured", now, "hint", EngineRestart)
	}
}

func (h *hosts) sandboxOptions(s Settings) SandboxOptions {
	s.Engine = h.engineOf(s.Owner)
	return SandboxOptions{Settings: s, StateDir: h.stateDir, Progress: &progressLog{log: h.log}, Log: h.log}
}

// poolEvery is how often the settings of the pool are looked at.
const poolEvery = 5 * time.Second

// keepPool keeps the pools as they are configured, until ctx ends.
func (h *hosts) keepPool(ctx context.Context) {
	by, byE2B, said, saidOfEngine := poolSettings{}, poolSettings{}, "", ""
	for {
		h.followEngine(&saidOfEngine)
		err := errors.Join(h.followPool(&h.warm, h.wantedPool(), &by), h.followPool(&h.warmE2B, h.wantedE2B(), &byE2B))
		if err != nil && err.Error() != said {
			said = err.Error()
			h.log.Warn("there is no pool of sandboxes", "error", err, "hint", corral.Hint(err))
		}
		if err == nil {
			said = ""
		}
		select {
		case <-time.After(poolEvery):
		case <-ctx.Done():
			return
		}
	}
}

// pools are the containers that wait for new sandboxes.
func (h *hosts) pools() []api.SandboxPool {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []api.SandboxPool
	for _, p := range []struct {
		of   string
		pool WarmPool
	}{{"agents", h.warm}, {"e2b", h.warmE2B}} {
		if p.pool == nil {
			continue
		}
		if c := p.pool.Containers(); c != nil {
			list = append(list, api.SandboxPool{For: p.of, Size: c.Size(), Ready: c.Ready()})
		}
	}
	return list
}

// poolSettings are those of a pool, and of what is in it.
type poolSettings struct {
	settings Settings
	size     int
}

// wantedPool is the pool for all agents, as it is configured now.
func (h *hosts) wantedPool() poolSettings {
	c := h.policies.agent("")
	want := poolSettings{h.opt.SettingsOf(c), c.Sandbox.Pool.Size.Value}
	want.settings.Engine = h.engineOf("")
	if want.settings.Mode == ModeOff || c.Err != nil {
		want.size = 0
	}
	return want
}

// followPool has a pool go by the settings of now; by is what it goes by. Only the caller
// changes kept.
func (h *hosts) followPool(kept *WarmPool, want poolSettings, by *poolSettings) error {
	h.mu.Lock()
	warm := *kept
	h.mu.Unlock()
	switch {
	case warm == nil && want.size == 0, reflect.DeepEqual(*by, want):
		return nil
	case warm != nil:
		if err := warm.ConfigurePool(h.sandboxOptions(want.settings), want.size); err != nil {
			return err
		}
	default:
		warm, err := h.opt.Backends.Pool(h.sandboxOptions(want.settings), want.size)
		if err != nil {
			return err
		}
		h.mu.Lock()
		*kept = warm
		h.mu.Unlock()
	}
	*by = want
	return nil
}

// boxesOf are the sandboxes in which commands of an agent may be, also those of
// earlier lives and other scopes.
func (h *hosts) boxesOf(agent string) ([]*lazySandbox, error) {
	names := map[string][2]string{SandboxName(config.ScopeAgent, agent, ""): {agent, ScopeKey(config.ScopeAgent, agent, "")}}
	list, err := sandbox.Sandboxes(h.stateDir)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if s.Key != "" && (s.Owner == agent || s.Owner == "") {
			names[s.Name] = [2]string{s.Owner, s.Key}
		}
	}
	h.mu.Lock()
	for name, l := range h.boxes {
		if l.owner == agent || l.owner == "" {
			names[name] = [2]string{l.owner}
		}
	}
	h.mu.Unlock()
	var found []*lazySandbox
	for name, of := range names {
		found = append(found, h.box(name, of[0], of[1]))
	}
	return found, nil
}

// scoped is an agent's sandboxes as one executor: each command goes to the one
// of its scope.
type scoped struct{ *agentHosts }

// Start implements corral.Executor.
func (s scoped) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	return s.box(ctx).Start(ctx, cmd)
}

// Attach finds a process in whichever sandbox it is.
func (s scoped) Attach(ctx context.Context, id string) (corral.Process, error) {
	boxes, err := s.hosts.boxesOf(s.name)
	if err != nil {
		return nil, err
	}
	if len(boxes) == 1 {
		return boxes[0].Attach(ctx, id)
	}
	i := slices.IndexFunc(boxes, func(l *lazySandbox) bool { return l.knows(id) })
	if i < 0 {
		return nil, corral.Errorf(corral.ErrNotFound, "", "no sandbox of agent %s knows a process %s", s.name, id)
	}
	return boxes[i].Attach(ctx, id)
}

// knows reports whether a sandbox has records of a process.
func (l *lazySandbox) knows(id string) bool {
	l.mu.Lock()
	ex := l.ex
	l.mu.Unlock()
	if k, ok := ex.(interface{ Knows(id string) bool }); ok {
		return k.Knows(id)
	}
	return sandbox.Knows(l.stateDir, l.name, id)
}

// pruning is what is old of an agent's sandboxes; of all others', if it is empty. Those of
// E2B's clients have a deadline of their own.
func (h *hosts) pruning(name, agent string) sandbox.PruneOptions {
	if h.e2b != nil {
		if _, ok := h.e2b.Get(name); ok {
			return sandbox.PruneOptions{}
		}
	}
	c := h.policies.agent(agent)
	if c.Err != nil { // it may say that nothing ever gets old
		return sandbox.PruneOptions{}
	}
	box := c.Sandbox
	return sandbox.PruneOptions{Idle: box.Prune.IdleHours.Value, Age: box.Prune.MaxAgeDays.Value, Lifetime: box.Lifetime.Value}
}

// sandboxed reports whether there may be sandboxes.
func (h *hosts) sandboxed() bool {
	list, err := sandbox.Sandboxes(h.stateDir)
	return len(list) > 0 || err != nil
}

// prune removes what is old of the sandboxes of all agents. It returns the names
// of the containers that it removed.
func (h *hosts) prune(ctx context.Context, eng Engine) ([]string, error) {
	h.mu.Lock()
	boxes := slices.Collect(maps.Values(h.boxes))
	h.mu.Unlock()
	var removed []string
	var errs []error
	for _, l := range boxes {
		names, err := l.prune(ctx, h.pruning(l.name, l.owner))
		removed = append(removed, names...)
		errs = append(errs, err)
	}
	names, err := eng.Prune(ctx, h.stateDir, func(s sandbox.Sandbox) sandbox.PruneOptions { return h.pruning(s.Name, s.Owner) })
	return append(removed, names...), errors.Join(append(errs, err)...)
}

// restAfter is how long after its last use a sandbox that has nothing any more is closed.
const restAfter = 10 * time.Minute

// rest closes and forgets the sandboxes that have nothing any more. Each open one takes
// descriptors and memory, and clients make up their names.
func (h *hosts) rest() error {
	h.mu.Lock()
	boxes := slices.Collect(maps.Values(h.boxes))
	h.mu.Unlock()
	var errs []error
	for _, l := range boxes {
		errs = append(errs, l.retire())
		if !l.retired.Load() {
			continue
		}
		h.mu.Lock()
		if h.boxes[l.name] == l {
			delete(h.boxes, l.name)
		}
		h.mu.Unlock()
	}
	return errors.Join(errs...)
}

// retire closes a sandbox for good, if it has nothing and was not used lately.
func (l *lazySandbox) retire() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || time.Since(l.got) < restAfter {
		return nil
	}
	if l.ex != nil {
		u, ok := l.ex.(interface{ Unused() (bool, error) })
		if !ok {
			return nil
		}
		if unused, err := u.Unused(); err != nil || !unused {
			return err
		}
	}
	l.retired.Store(true)
	if l.ex == nil {
		return nil
	}
	err := l.ex.Close()
	l.ex = nil
	return err
}

// tidyEvery is how often it is looked for sandboxes that are old, and for what crashes left.
const tidyEvery = 5 * time.Minute

// tidy removes now and then what will not be used again, until ctx ends.
func (h *hosts) tidy(ctx context.Context) {
	for {
		select {
		case <-time.After(tidyEvery):
		case <-ctx.Done():
			return
		}
		if _, err := h.tidyUp(ctx); err != nil && ctx.Err() == nil {
			h.log.Warn("cannot remove what is old of sandboxes; trying again", "error", err, "hint", corral.Hint(err), "delay", tidyEvery)
		}
	}
}

// tidyUp removes what is old, and what crashes left. It returns the names of the containers.
func (h *hosts) tidyUp(ctx context.Context) ([]string, error) {
	err := h.rest()
	if !h.sandboxed() {
		return nil, err
	}
	eng, eerr := h.opt.Backends.Engine(ctx, h.engineOf(""))
	if eerr != nil {
		return nil, errors.Join(err, eerr)
	}
	pruned, perr := h.prune(ctx, eng)
	swept, serr := eng.Sweep(ctx, h.stateDir)
	removed := append(pruned, swept...)
	if len(removed) > 0 {
		h.log.Info("removed containers that nobody will use again", "containers", removed)
	}
	return removed, errors.Join(err, perr, serr, eng.Close())
}

// prune removes what is old of a sandbox that is open.
func (l *lazySandbox) prune(ctx context.Context, o sandbox.PruneOptions) ([]string, error) {
	l.mu.Lock()
	ex := l.ex
	l.mu.Unlock()
	if p, ok := ex.(interface {
		Prune(context.Context, sandbox.PruneOptions) ([]string, error)
	}); ok {
		return p.Prune(ctx, o)
	}
	return nil, nil
}
