// Package claudeapi is a server for tests that speaks the wire of Claude's managed agents
// as far as a worker of a self-hosted environment needs it: the queue of work, leases,
// sessions with their events, and skills. A session calls the tools that the test wants,
// one after the other, and keeps what the worker answers.
package claudeapi

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Environment and Key are those that the server knows.
const (
	Environment = "env_test"
	Key         = "sk-ant-oat01-environment"
)

// A Call of a tool.
type Call struct {
	Tool  string
	Input map[string]any
}

// A Result is the worker's answer to a Call.
type Result struct {
	Text  string
	Error bool
}

// A Session is an item of the queue.
type Session struct {
	ID     string
	Type   string // empty: "session"
	Calls  []Call
	Skill  map[string]string // files of a skill called "tests"; nil: there is none
	Memory bool              // a memory store is attached

	results  []Result
	answered chan struct{} // has a value for each result
	stopped  chan struct{}
	once     sync.Once
}

// Ended is closed when the worker has given the session back.
func (s *Session) Ended() <-chan struct{} { return s.stopped }

// Results are the answers, after the session has ended.
func (s *Session) Results() []Result { return s.results }

// API is the server.
type API struct {
	*httptest.Server
	t testing.TB

	mu    sync.Mutex
	shut  bool // the key is refused
	queue []*Session
	all   map[string]*Session // by ID
	live  int                 // sessions whose events are read
	most  int
}

// New serves until the test ends.
func New(t testing.TB) *API {
	a := &API{t: t, all: map[string]*Session{}}
	mux := http.NewServeMux()
	work := "/v1/environments/" + Environment + "/work/"
	mux.HandleFunc("GET "+work+"poll", a.poll)
	mux.HandleFunc("POST "+work+"{id}/ack", a.ack)
	mux.HandleFunc("POST "+work+"{id}/heartbeat", a.heartbeat)
	mux.HandleFunc("POST "+work+"{id}/stop", a.stop)
	mux.HandleFunc("GET /v1/sessions/{id}", a.session)
	mux.HandleFunc("GET /v1/sessions/{id}/events", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"data": []any{}, "has_more": false})
	})
	mux.HandleFunc("GET /v1/sessions/{id}/events/stream", a.stream)
	mux.HandleFunc("POST /v1/sessions/{id}/events", a.send)
	mux.HandleFunc("GET /v1/skills/tests/versions/1", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"id": "1", "skill_id": "tests", "name": "tests", "type": "skill_version"})
	})
	mux.HandleFunc("GET /v1/skills/tests/versions/1/content", a.skill)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		shut := a.shut && strings.HasSuffix(r.URL.Path, "/poll")
		a.mu.Unlock()
		if shut || r.Header.Get("Authorization") != "Bearer "+Key || r.Header.Get("X-Api-Key") != "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"type":"error","error":{"type":"authentication_error","message":"invalid key"}}`)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

// Add puts a session into the queue.
func (a *API) Add(s *Session) *Session {
	s.answered, s.stopped = make(chan struct{}, len(s.Calls)), make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue, a.all[s.ID] = append(a.queue, s), s
	return s
}

// Revoke has the key be refused for more work. Sessions may go on, as with tokens of their
// own.
func (a *API) Revoke() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shut = true
}

// Most is how many sessions were live at once.
func (a *API) Most() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.most
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// of is the session of a request: the ID of its work is that of the session with "work_".
func (a *API) of(w http.ResponseWriter, r *http.Request) *Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := r.PathValue("id")
	s := a.all[strings.TrimPrefix(id, "work_")]
	if s == nil {
		a.t.Errorf("%s %s: there is no such session", r.Method, r.URL.Path)
		w.WriteHeader(http.StatusNotFound)
	}
	return s
}

func item(s *Session) map[string]any {
	kind := s.Type
	if kind == "" {
		kind = "session"
	}
	return map[string]any{"id": "work_" + s.ID, "type": "work", "environment_id": Environment, "state": "queued", "data": map[string]any{"type": kind, "id": s.ID}}
}

func (a *API) poll(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s := a.queue[0]
	a.queue = a.queue[1:]
	answer(w, item(s))
}

func (a *API) ack(w http.ResponseWriter, r *http.Request) {
	if s := a.of(w, r); s != nil {
		answer(w, item(s))
	}
}

func (a *API) heartbeat(w http.ResponseWriter, r *http.Request) {
	if s := a.of(w, r); s != nil {
		answer(w, map[string]any{"type": "work_heartbeat", "last_heartbeat": "2026-05-11T12:00:00Z", "lease_extended": true, "state": "active", "ttl_seconds": 30})
	}
}

func (a *API) stop(w http.ResponseWriter, r *http.Request) {
	if s := a.of(w, r); s != nil {
		s.once.Do(func() { close(s.stopped) })
		answer(w, item(s))
	}
}

func (a *API) session(w http.ResponseWriter, r *http.Request) {
	s := a.of(w, r)
	if s == nil {
		return
	}
	skills, resources := []any{}, []any{}
	if s.Skill != nil {
		skills = append(skills, map[string]any{"type": "custom", "skill_id": "tests", "version": "1"})
	}
	if s.Memory {
		resources = append(resources, map[string]any{"type": "memory_store", "memory_store_id": "mem_1", "mount_path": "/mnt/memory/notes"})
	}
	answer(w, map[string]any{"id": s.ID, "type": "session", "agent": map[string]any{"skills": skills}, "resources": resources})
}

// stream has the session call its tools, each after the answer to the one before, and end.
func (a *API) stream(w http.ResponseWriter, r *http.Request) {
	s := a.of(w, r)
	if s == nil {
		return
	}
	a.mu.Lock()
	a.live++
	a.most = max(a.most, a.live)
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.live--
		a.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(event map[string]any) {
		event["processed_at"] = "2026-05-11T12:00:00Z"
		data, err := json.Marshal(event)
		if err != nil {
			a.t.Error(err)
		}
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], data)
		_ = http.NewResponseController(w).Flush()
	}
	for i, c := range s.Calls {
		say(map[string]any{"type": "agent.tool_use", "id": "evt_" + strconv.Itoa(i), "name": c.Tool, "input": c.Input})
		select {
		case <-s.answered:
		case <-r.Context().Done():
			return
		}
	}
	say(map[string]any{"type": "session.status_terminated", "id": "evt_end"})
}

func (a *API) send(w http.ResponseWriter, r *http.Request) {
	s := a.of(w, r)
	if s == nil {
		return
	}
	var body struct {
		Events []struct {
			Type    string
			IsError bool `json:"is_error"`
			Content []struct{ Text string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		a.t.Error(err)
	}
	for _, e := range body.Events {
		if e.Type == "user.tool_result" {
			result := Result{Error: e.IsError}
			for _, c := range e.Content {
				result.Text += c.Text
			}
			s.results = append(s.results, result)
			s.answered <- struct{}{}
		}
	}
	answer(w, map[string]any{"type": "send_session_events"})
}

func (a *API) skill(w http.ResponseWriter, _ *http.Request) {
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.all {
		for name, text := range s.Skill {
			f, err := z.Create("tests/" + name)
			if err == nil {
				_, err = f.Write([]byte(text))
			}
			if err != nil {
				a.t.Error(err)
			}
		}
	}
	if err := z.Close(); err != nil {
		a.t.Error(err)
	}
	w.Header().Set("Content-Type", "application/zip")
	_, _ = w.Write(archive.Bytes())
}
