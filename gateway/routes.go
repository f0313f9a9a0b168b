package gateway

import (
	"net/http"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// A route is one operation of the API.
type route struct {
	pattern string // of http.ServeMux; also its name in metrics
	handle  handler
	open    bool // needs no token: says nothing that is worth one
	head    bool // answers HEAD
	pages   bool // answers errors as HTML, if that is asked for
}

// A handler answers a request, or returns why it cannot.
type handler func(w http.ResponseWriter, r *http.Request) error

func (s *Server) table() []route {
	table := []route{
		{pattern: "POST /v1/exec", handle: s.tool("exec")},
		{pattern: "POST /v1/process", handle: s.tool("process")},
		{pattern: "GET /v1/tools", handle: s.listTools},
		{pattern: "POST /v1/tools/{name}", handle: s.callTool},

		{pattern: "POST /v1/explain", handle: s.explain},
		{pattern: "GET /v1/overrides", handle: s.getOverrides},
		{pattern: "PUT /v1/overrides", handle: s.putOverrides},
		{pattern: "POST /v1/commands", handle: s.command},

		{pattern: "GET /v1/sessions", handle: s.listSessions},
		{pattern: "POST /v1/sessions", handle: s.startSession},
		{pattern: "GET /v1/sessions/{id}", handle: s.getSession},
		{pattern: "DELETE /v1/sessions/{id}", handle: s.removeSession},
		{pattern: "GET /v1/sessions/{id}/wait", handle: s.waitSession},
		{pattern: "POST /v1/sessions/{id}/signal", handle: s.signalSession},
		{pattern: "POST /v1/sessions/{id}/resize", handle: s.resizeSession},
		{pattern: "POST /v1/sessions/{id}/kill", handle: s.killSession},
		{pattern: "GET /v1/sessions/{id}/log", handle: s.readLog},
		{pattern: "GET /v1/sessions/{id}/log/stat", handle: s.statLog},
		{pattern: "GET /v1/sessions/{id}/output", handle: s.output},
		{pattern: "POST /v1/sessions/{id}/stdin", handle: s.writeStdin},
		{pattern: "DELETE /v1/sessions/{id}/stdin/{write}", handle: s.cancelStdin},
		{pattern: "GET /v1/sessions/{id}/attach", handle: s.attach},

		{pattern: "GET /v1/events", handle: s.events},
		{pattern: "GET /v1/approvals", handle: s.listApprovals},
		{pattern: "POST /v1/approvals", handle: s.denyApprovals},
		{pattern: "GET /v1/approvals/changes", handle: s.approvalChanges},
		{pattern: "GET /v1/approvals/rules", handle: s.listRules},
		{pattern: "POST /v1/approvals/rules", handle: s.addRule},
		{pattern: "DELETE /v1/approvals/rules", handle: s.removeRule},
		{pattern: "GET /v1/approvals/{id}", handle: s.getApproval},
		{pattern: "POST /v1/approvals/{id}", handle: s.answerApproval},

		{pattern: "GET /v1/health", handle: s.health, open: true},
		{pattern: "GET /v1/ready", handle: s.ready, open: true},
		{pattern: "GET /metrics", handle: s.metrics.serve},
		{pattern: "GET /openapi.json", handle: s.openAPI},
	}
	table = append(table, s.nodeRoutes()...)
	table = append(table, s.sandboxRoutes()...)
	table = append(table, s.fileRoutes()...)
	table = append(table, s.portRoutes()...)
	if s.cfg.MCP != nil {
		table = append(table, route{pattern: "/mcp", handle: s.mcp})
	}
	return table
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range s.table() {
		mux.Handle(rt.pattern, s.wrap(rt))
	}
	mux.Handle("/", s.wrap(route{pattern: "/", handle: s.unknown(mux)}))
	return mux
}

// unknown answers what no route does.
func (s *Server) unknown(mux *http.ServeMux) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		allowed := ""
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
			if _, pattern := mux.Handler(other); pattern != "/" {
				if allowed != "" {
					allowed += ", "
				}
				allowed += method
			}
		}
		if allowed == "" {
			return corral.Errorf(corral.ErrNotFound, "see /openapi.json for what there is", "there is no %s", r.URL.Path)
		}
		w.Header().Set("Allow", allowed)
		err := corral.Errorf(corral.ErrInvalid, "use "+allowed, "%s does not take %s", r.URL.Path, r.Method)
		_, body := api.Encode(err)
		return writeJSON(w, http.StatusMethodNotAllowed, body)
	}
}
