package e2b

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/gateway/access"
)

const maxPage = 100 // sandboxes in an answer

// A filter says which sandboxes are listed.
type filter struct {
	metadata url.Values
	states   []string
	after    time.Time
	template string
	asc      bool
	limit    int
	next     string // the last sandbox of the page before
}

func parseFilter(q url.Values) (f filter, err error) {
	bad := func(name string, err error) (filter, error) {
		return f, corral.Errorf(corral.ErrInvalid, "", "the parameter %s is not understood: %w", name, err)
	}
	if f.metadata, err = url.ParseQuery(q.Get("metadata")); err != nil {
		return bad("metadata", err)
	}
	for _, list := range q["state"] {
		f.states = append(f.states, strings.Split(list, ",")...)
	}
	if t := q.Get("startedAfter"); t != "" {
		if f.after, err = time.Parse(time.RFC3339Nano, t); err != nil {
			return bad("startedAfter", err)
		}
	}
	f.template, f.asc, f.limit = q.Get("template"), q.Get("order") == "asc", maxPage
	if t := q.Get("limit"); t != "" {
		n, err := strconv.ParseUint(t, 10, 16)
		if err != nil {
			return bad("limit", err)
		}
		f.limit = min(max(int(n), 1), maxPage)
	}
	next, err := base64.RawURLEncoding.DecodeString(q.Get("nextToken"))
	if err != nil {
		return bad("nextToken", err)
	}
	f.next = string(next)
	return f, nil
}

func (f filter) has(b Box) bool {
	state := list(b).State
	for k := range f.metadata {
		if v, ok := b.Metadata[k]; !ok || v != f.metadata.Get(k) {
			return false
		}
	}
	return (len(f.states) == 0 || slices.Contains(f.states, state)) &&
		!b.Started.Before(f.after) && (f.template == "" || f.template == b.Template)
}

// place orders sandboxes in time. It is what a page's token has in it.
func place(b Box) string { return b.Started.UTC().Format("20060102150405.000000000") + " " + b.ID }

// page is what of the sandboxes, the newest first, is in an answer, and the token of what
// is after that.
func (f filter) page(all []Box) (page []Box, next string) {
	all = slices.DeleteFunc(all, func(b Box) bool { return !f.has(b) })
	slices.SortFunc(all, func(a, b Box) int {
		if f.asc {
			a, b = b, a
		}
		return strings.Compare(place(b), place(a))
	})
	if f.next != "" {
		all = slices.DeleteFunc(all, func(b Box) bool {
			if f.asc {
				return place(b) <= f.next
			}
			return place(b) >= f.next
		})
	}
	if len(all) <= f.limit {
		return all, ""
	}
	page = all[:f.limit]
	return page, base64.RawURLEncoding.EncodeToString([]byte(place(page[len(page)-1])))
}

// list lists the caller's sandboxes, page by page.
func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	f, err := parseFilter(r.URL.Query())
	if err != nil {
		return err
	}
	if !strings.HasPrefix(r.URL.Path, "/v2/") { // which lists those that run
		f.states = []string{"running"}
	}
	g, running := access.From(r.Context()), 0
	all := slices.DeleteFunc(s.cfg.Store.List(), func(b Box) bool { return !g.Sees(b.Agent) || s.over(b) })
	for _, b := range all {
		if !b.Paused {
			running++
		}
	}
	page, next := f.page(all)
	rows := []listed{}
	for _, b := range page {
		rows = append(rows, list(b))
	}
	w.Header().Set("X-Total-Running", strconv.Itoa(running))
	if next != "" {
		w.Header().Set("X-Next-Token", next)
	}
	return writeJSON(w, http.StatusOK, rows)
}

// listTeams answers that the caller's agent is its team.
func (s *Server) listTeams(w http.ResponseWriter, r *http.Request) error {
	agent, err := s.agentFor(access.From(r.Context()))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, []map[string]any{{"teamID": agent, "name": agent, "apiKey": "", "isDefault": true}})
}
