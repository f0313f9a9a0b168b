package e2b

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
)

// Bounds of builds.
const (
	maxBuilds    = 100 // that are known, of an agent
	maxRunning   = 4   // at a time
	maxRunningOf = 3   // of them of an agent, so that others have one
	maxSteps     = 500
	buildLimit   = 30 * time.Minute
	maxLog       = 1 << 20   // bytes of memory, of a build
	maxLogEnd    = 128 << 10 // of these, for the last lines
	maxLogLine   = 4 << 10
	maxLogAnswer = 100 // lines
)

// The states of a build.
const (
	buildWaiting  = "waiting"
	buildRunning  = "building"
	buildReady    = "ready"
	buildHasError = "error"
)

// A build makes a template. It is known as long as the gateway runs; what it made is kept.
type build struct {
	id, agent, name string
	tags            []string

	mu     sync.Mutex
	status string
	logs   []logEntry // is only appended to: clients go on after as many lines as they have
	size   int        // bytes of logs
	last   []logEntry // what came when logs was full; end appends it
	ending int        // bytes of last
	lost   int        // lines that were taken out of last
	reason *reason
}

type logEntry struct {
	Time    time.Time `json:"timestamp"`
	Level   string    `json:"level"`
	Message string    `json:"message"`
	Step    string    `json:"step,omitempty"`
}

// reason is why a build failed.
type reason struct {
	Message string     `json:"message"`
	Step    string     `json:"step,omitempty"`
	Logs    []logEntry `json:"logEntries"`
}

// size is what an entry takes of the memory, about.
func (e logEntry) size() int { return len(e.Message) + 100 }

func (b *build) log(level, step, message string) {
	message = strings.ToValidUTF8(message[:min(len(message), maxLogLine)], "\uFFFD")
	message = strings.Clone(message) // or the whole line would stay
	b.mu.Lock()
	defer b.mu.Unlock()
	e := logEntry{time.Now().UTC(), level, message, step}
	if len(b.last) == 0 && b.size+e.size() <= maxLog-maxLogEnd {
		b.logs, b.size = append(b.logs, e), b.size+e.size()
		return
	}
	if len(b.last) == 0 {
		b.note(step, "The log is full. The last lines follow when the build has ended")
	}
	b.last, b.ending = append(b.last, e), b.ending+e.size()
	for b.ending > maxLogEnd {
		b.ending -= b.last[0].size()
		b.last[0] = logEntry{}
		b.last = b.last[1:]
		b.lost++
	}
}

// note logs what is to be known of the log itself. mu is held.
func (b *build) note(step, message string) {
	b.logs = append(b.logs, logEntry{time.Now().UTC(), "warn", message, step})
}

// end notes what came of a build, and has its log be whole before clients know of it.
func (b *build) end(status string, why *reason) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost > 0 {
		b.note(b.last[0].Step, fmt.Sprintf("%d lines are not kept", b.lost))
	}
	b.logs, b.last, b.lost = append(b.logs, b.last...), nil, 0
	b.status, b.reason = status, why
}

func (b *build) state() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// lines logs output line by line.
type lines struct {
	*build
	step string
	rest map[corral.Stream][]byte
}

func (l lines) add(c corral.Chunk) {
	text := append(l.rest[c.Stream], c.Data...)
	for {
		line, rest, ok := bytes.Cut(text, []byte("\n"))
		if !ok && len(text) <= maxLogLine {
			break
		}
		l.line(c.Stream, line)
		text = rest
	}
	l.rest[c.Stream] = slices.Clone(text)
}

func (l lines) line(from corral.Stream, line []byte) {
	level := "info"
	if from == corral.Stderr {
		level = "warn"
	}
	l.log(level, l.step, string(bytes.TrimRight(line, "\r")))
}

func (l lines) end() {
	for from, line := range l.rest {
		if len(line) > 0 {
			l.line(from, line)
		}
	}
}

// builds are those that the gateway knows, in the order in which they were asked for.
type builds struct {
	mu  sync.Mutex
	all []*build
}

// add notes a build. If its agent has too many, the oldest that has ended is forgotten, or
// else the oldest that was never begun.
func (bs *builds) add(b *build) error {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	n, ended, waiting := 0, -1, -1
	for i, other := range slices.Backward(bs.all) {
		if other.agent != b.agent {
			continue
		}
		n++
		switch other.state() {
		case buildRunning:
		case buildWaiting:
			waiting = i
		default:
			ended = i
		}
	}
	if n >= maxBuilds {
		i := ended
		if i < 0 {
			i = waiting
		}
		if i < 0 {
			return corral.Errorf(api.ErrTooMany, "wait until some have ended", "the agent %s has %d builds that run", b.agent, n)
		}
		bs.all = slices.Delete(bs.all, i, i+1)
	}
	bs.all = append(bs.all, b)
	return nil
}

// find is the build of a template by its ID, or the newest, for who sees these agents.
func (bs *builds) find(sees func(agent string) bool, template, id string) (*build, error) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, b := range slices.Backward(bs.all) {
		if b.name == template && (id == "" || b.id == id) && sees(b.agent) {
			return b, nil
		}
	}
	return nil, corral.Errorf(corral.ErrNotFound, "ask for a new one", "there is no build %.40q of the template %.80q", id, template)
}

// begin has a build run, unless too many do or it has been begun.
func (bs *builds) begin(b *build) error {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if !slices.Contains(bs.all, b) {
		return corral.Errorf(corral.ErrNotFound, "ask for a new one", "the build %s was forgotten", b.id)
	}
	n, own := 0, 0
	for _, other := range bs.all {
		if other.state() == buildRunning {
			n++
			if other.agent == b.agent {
				own++
			}
		}
	}
	if n >= maxRunning || own >= maxRunningOf {
		return corral.Errorf(api.ErrTooMany, "wait until some have ended", "%d builds run, %d of the agent %s, and no more may", n, own, b.agent)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status != buildWaiting {
		return corral.Errorf(corral.ErrConflict, "", "the build %s has been begun", b.id)
	}
	b.status = buildRunning
	return nil
}

// requestBuild notes that a template is to be built. Its name is its ID.
func (s *Server) requestBuild(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Name  string   `json:"name"`
		Alias string   `json:"alias"`
		Tags  []string `json:"tags"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	agent, err := s.agentFor(access.From(r.Context()))
	if err != nil {
		return err
	}
	name, tag, err := templateName(cmp.Or(body.Name, body.Alias))
	if err != nil {
		return err
	}
	if _, ok := s.configured(name); ok {
		return corral.Errorf(corral.ErrConflict, "use another name", "the template %s is configured, and is not built", name)
	}
	if tag != "" {
		body.Tags = append(body.Tags, tag)
	}
	tags, err := checkTags(body.Tags)
	if err != nil {
		return err
	}
	b := &build{id: newSnapshotID(), agent: agent, name: name, tags: tags, status: buildWaiting}
	if err := s.builds.add(b); err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, map[string]any{
		"templateID": name, "buildID": b.id, "public": false, "names": []string{name}, "aliases": []string{name}, "tags": tags,
	})
}

func (s *Server) startBuild(w http.ResponseWriter, r *http.Request) error {
	var spec buildSpec
	if err := readJSON(w, r, &spec); err != nil {
		return err
	}
	b, err := s.builds.find(access.From(r.Context()).Sees, r.PathValue("id"), r.PathValue("build"))
	if err != nil {
		return err
	}
	from, err := s.checkBuild(b, spec)
	if err != nil {
		return err
	}
	if s.life.Err() != nil {
		return corral.Errorf(corral.ErrUnavailable, "", "the gateway stops")
	}
	if err := s.builds.begin(b); err != nil {
		return err
	}
	ctx := context.WithoutCancel(r.Context())
	s.owned.Go(func() {
		ctx, done := access.From(ctx).Context(ctx) // it ends with the key
		defer done()
		ctx, cancel := context.WithTimeout(ctx, buildLimit)
		defer cancel()
		defer context.AfterFunc(s.life, cancel)()
		s.runBuild(ctx, b, spec, from)
	})
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// runBuild builds a template, and notes what came of it.
func (s *Server) runBuild(ctx context.Context, b *build, spec buildSpec, from source) {
	begun := time.Now()
	step, err := s.buildSteps(ctx, b, spec, from)
	if err != nil {
		_, message := Status(err)
		b.log("error", step, message)
		s.log.Info("a template of E2B's could not be built", "agent", b.agent, "template", b.name, "step", step, "error", err)
		b.end(buildHasError, &reason{Message: message, Step: step, Logs: []logEntry{}})
		return
	}
	b.log("info", stepFinalize, fmt.Sprintf("Build finished, took %v", time.Since(begun).Round(time.Millisecond)))
	b.end(buildReady, nil)
}

func (s *Server) buildStatus(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("build")
	answer := map[string]any{"templateID": r.PathValue("id"), "buildID": id, "logs": []string{}, "logEntries": []logEntry{}}
	b, err := s.builds.find(access.From(r.Context()).Sees, r.PathValue("id"), id)
	if err != nil { // of an earlier life of the gateway
		if snap, ok := s.cfg.Store.snaps.find(access.From(r.Context()).Sees, id); !ok || !snap.Built || snap.Name != r.PathValue("id") {
			return err
		}
		answer["status"] = buildReady
		return writeJSON(w, http.StatusOK, answer)
	}
	var from uint64
	if text := r.URL.Query().Get("logsOffset"); text != "" {
		if from, err = strconv.ParseUint(text, 10, 31); err != nil {
			return corral.Errorf(corral.ErrInvalid, "", "the parameter logsOffset is not understood: %w", err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	answer["status"] = b.status
	if b.reason != nil {
		answer["reason"] = b.reason
	}
	part := b.logs[min(int(from), len(b.logs)):]
	part = append([]logEntry{}, part[:min(len(part), maxLogAnswer)]...)
	texts := make([]string, len(part))
	for i, e := range part {
		texts[i] = e.Message + "\n"
	}
	answer["logEntries"], answer["logs"] = part, texts
	return writeJSON(w, http.StatusOK, answer)
}
