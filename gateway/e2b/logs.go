package e2b

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/session"
)

// A sandboxLog is what happened in a sandbox: a command that began or ended.
type sandboxLog struct {
	logEntry
	Fields map[string]string `json:"fields"`
}

const maxLogs = 1000 // in an answer

// levels are those of entries, the least first.
var levels = []string{"debug", "info", "warn", "error"}

// A logFilter says which entries are wanted.
type logFilter struct {
	from   time.Time
	limit  int
	back   bool // the newest first, from before the time
	least  int  // of levels
	search string
}

// parseLogFilter reads a query, in which the time to begin with has a name.
func parseLogFilter(q url.Values, from string) (f logFilter, err error) {
	bad := func(name string) (logFilter, error) {
		return f, corral.Errorf(corral.ErrInvalid, "", "the parameter %s is not understood: %.40q", name, q.Get(name))
	}
	f.limit, f.search = maxLogs, q.Get("search")
	switch q.Get("direction") {
	case "", "forward":
	case "backward":
		f.back = true
	default:
		return bad("direction")
	}
	if t := q.Get(from); t != "" {
		ms, err := strconv.ParseInt(t, 10, 64)
		if err != nil || ms < 0 {
			return bad(from)
		}
		f.from = time.UnixMilli(ms)
	}
	if t := q.Get("limit"); t != "" {
		n, err := strconv.ParseUint(t, 10, 31)
		if err != nil {
			return bad("limit")
		}
		f.limit = min(int(n), maxLogs)
	}
	if level := q.Get("level"); level != "" {
		if f.least = slices.Index(levels, level); f.least < 0 {
			return bad("level")
		}
	}
	return f, nil
}

// of are the entries of a list that are wanted.
func (f logFilter) of(list []sandboxLog) []sandboxLog {
	list = slices.DeleteFunc(list, func(e sandboxLog) bool {
		outside := e.Time.Before(f.from)
		if f.back && !f.from.IsZero() {
			outside = e.Time.After(f.from)
		}
		return outside || slices.Index(levels, e.Level) < f.least || !strings.Contains(e.Message, f.search)
	})
	slices.SortStableFunc(list, func(a, b sandboxLog) int {
		if f.back {
			a, b = b, a
		}
		return a.Time.Compare(b.Time)
	})
	return list[:min(len(list), f.limit)]
}

// logsOf is what the records of a command say.
func logsOf(st session.Status) []sandboxLog {
	entry := func(at time.Time, level, message string, args ...any) sandboxLog {
		return sandboxLog{logEntry{Time: at.UTC(), Level: level, Message: fmt.Sprintf(message, args...)}, map[string]string{"session": st.ID, "pid": strconv.Itoa(st.PID)}}
	}
	list := []sandboxLog{entry(st.StartedAt, "info", "started: %s", st.Command)}
	if st.EndedAt != nil {
		level, how := "info", string(st.State)
		if st.Exit != nil {
			how = st.Exit.String()
		}
		if st.Exit == nil || !st.Exit.Success() {
			level = "warn"
		}
		list = append(list, entry(*st.EndedAt, level, "%s: %s", how, st.Command))
	}
	return list
}

// logs answers what happened in a sandbox, by the records of its commands.
func (s *Server) logs(r *http.Request, b Box, from string) ([]sandboxLog, error) {
	f, err := parseLogFilter(r.URL.Query(), from)
	if err != nil {
		return nil, err
	}
	list := []sandboxLog{}
	for _, st := range s.cfg.Sessions.Agent(b.Agent).List(r.Context()) {
		if strings.HasPrefix(st.ID, b.ID+".") && !st.StartedAt.IsZero() {
			list = append(list, logsOf(st)...)
		}
	}
	return f.of(list), nil
}

func (s *Server) logsByCursor(w http.ResponseWriter, r *http.Request, b Box) error {
	list, err := s.logs(r, b, "cursor")
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]any{"logs": list})
}

// logsFrom is the same as earlier clients ask for it. They have lines, which they read as
// JSON: E2B's daemon writes its log so.
func (s *Server) logsFrom(w http.ResponseWriter, r *http.Request, b Box) error {
	list, err := s.logs(r, b, "start")
	if err != nil {
		return err
	}
	type line struct {
		Time time.Time `json:"timestamp"`
		Line string    `json:"line"`
	}
	lines := []line{}
	for _, e := range list {
		fields := maps.Clone(e.Fields)
		fields["level"], fields["message"], fields["logger"] = e.Level, e.Message, "process"
		text, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		lines = append(lines, line{e.Time, string(text)})
	}
	return writeJSON(w, http.StatusOK, map[string]any{"logs": lines, "logEntries": list})
}
