package mcp

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

const (
	sessionHeader = "Mcp-Session-Id"
	// maxSessions is how many sessions of the protocol clients may have at a time.
	maxSessions = 100
)

// sessions are those of the protocol over HTTP, by their IDs.
type sessions struct {
	mu      sync.Mutex
	of      map[string]*sessionUse
	opening int
}

type sessionUse struct {
	active int // requests under way, and calls, which may outlive theirs
	last   time.Time
}

// begin notes that a session is used, until the end that it returns is called.
func (s *sessions) begin(id string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.of[id]
	if u == nil {
		return func() {}
	}
	u.active++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		u.active--
		u.last = time.Now()
	}
}

// room makes room for one more session: where there are as many as there may be, it lets
// go of the one that was unused longest.
func (s *sessions) room(server *sdk.Server) error {
	s.mu.Lock()
	open := map[string]*sdk.ServerSession{}
	for c := range server.Sessions() {
		open[c.ID()] = c
	}
	var oldest string
	for id, u := range s.of {
		if open[id] == nil {
			delete(s.of, id) // its client ended it, or its time was over
		} else if u.active == 0 && (oldest == "" || u.last.Before(s.of[oldest].last)) {
			oldest = id
		}
	}
	full := len(s.of)+s.opening >= maxSessions
	if full && oldest == "" {
		s.mu.Unlock()
		return corral.Errorf(api.ErrTooMany, "end sessions that are not in use, by DELETE", "%d clients of this agent are connected, and no more may be", maxSessions)
	}
	s.opening++
	if full {
		delete(s.of, oldest)
	}
	s.mu.Unlock()
	if full {
		_ = open[oldest].Close() // it fails if its client is gone
	}
	return nil
}

// opened notes a session that was asked for; without an ID there is none.
func (s *sessions) opened(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening--
	if id == "" {
		return
	}
	if s.of == nil {
		s.of = map[string]*sessionUse{}
	}
	s.of[id] = &sessionUse{last: time.Now()}
}

// bounded serves requests of clients that have sessions.
func (s *Server) bounded(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(sessionHeader)
		if id != "" || r.Method != http.MethodPost {
			defer s.sessions.begin(id)()
			next.ServeHTTP(w, r)
			return
		}
		if err := s.sessions.room(s.sdk); err != nil {
			Refuse(w, err)
			return
		}
		defer func() { s.sessions.opened(w.Header().Get(sessionHeader)) }()
		next.ServeHTTP(w, r)
	}
}

// Refuse answers a request that is not served, in the form of the gateway's errors.
func Refuse(w http.ResponseWriter, err error) {
	status, body := api.Encode(err)
	data, _ := json.Marshal(body) // it is text
	w.Header().Set("Content-Type", api.TypeJSON)
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // who is gone reads no error
}
