package gateway

import (
	"net/http"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
)

// A route is one operation of the API.
type route struct {
	pattern string // of http.ServeMux; also its name in metrics
	handle  handler
	right   access.Right // what a key needs for it
	whole   bool         // it concerns all agents: a key for some is not enough
	host    corral.Host  // on which it acts, whatever the request says: a key has to be for it
	head    bool         // answers HEAD
	link    bool         // a link to the console is as good as a key
	waits   bool         // for a command, a client or an engine: how long it takes says nothing of the gateway
	pages   bool         // answers errors as HTML, if that is asked for
	foreign *foreign     // it is for clients of E2B; nil: it is not

	// who says by what right a request comes, where that is not seen by a key alone.
	who func(*http.Request) (*access.Grant, error)
}

// A handler answers a request, or returns why it cannot.
type handler func(w http.ResponseWriter, r *http.Request) error

func (s *Server) table() []route {
	table := []route{
		{pattern: "POST /v1/exec", waits: true, right: access.Run, handle: s.exec},
		{pattern: "POST /v1/process", waits: true, right: access.Run, handle: s.tool("process")},
		{pattern: "GET /v1/tools", right: access.Read, handle: s.listTools},
		{pattern: "POST /v1/tools/{name}", waits: true, right: access.Run, handle: s.callTool},

		{pattern: "POST /v1/explain", right: access.Run, handle: s.onPolicy(s.explain)},
		{pattern: "GET /v1/overrides", right: access.Read, handle: s.onPolicy(s.getOverrides)},
		{pattern: "PUT /v1/overrides", right: access.Operate, handle: s.onPolicy(s.putOverrides)},
		{pattern: "POST /v1/commands", right: access.Operate, handle: s.onPolicy(s.command)},

		{pattern: "GET /v1/sessions", right: access.Read, handle: s.listSessions},
		{pattern: "POST /v1/sessions", right: access.Run, handle: s.startSession},
		{pattern: "GET /v1/sessions/{id}", right: access.Read, handle: s.getSession},
		{pattern: "DELETE /v1/sessions/{id}", right: access.Run, handle: s.onSession(s.removeSession)},
		{pattern: "GET /v1/sessions/{id}/wait", waits: true, right: access.Read, handle: s.onSession(s.waitSession)},
		{pattern: "POST /v1/sessions/{id}/signal", right: access.Run, handle: s.onSession(s.signalSession)},
		{pattern: "POST /v1/sessions/{id}/resize", right: access.Run, handle: s.onSession(s.resizeSession)},
		{pattern: "POST /v1/sessions/{id}/kill", waits: true, right: access.Run, handle: s.onSession(s.killSession)},
		{pattern: "GET /v1/sessions/{id}/log", waits: true, right: access.Read, handle: s.onSession(s.readLog)},
		{pattern: "GET /v1/sessions/{id}/log/stat", right: access.Read, handle: s.onSession(s.statLog)},
		{pattern: "GET /v1/sessions/{id}/output", waits: true, right: access.Read, handle: s.onSession(s.output)},
		{pattern: "POST /v1/sessions/{id}/stdin", waits: true, right: access.Run, handle: s.onSession(s.writeStdin)},
		{pattern: "DELETE /v1/sessions/{id}/stdin/{write}", right: access.Run, handle: s.onSession(s.cancelStdin)},
		{pattern: "GET /v1/sessions/{id}/attach", waits: true, right: access.Run, handle: s.onSession(s.attach)},

		{pattern: "GET /v1/events", waits: true, right: access.Read, handle: s.events},
		{pattern: "GET /v1/approvals", right: access.Read, handle: s.approvals(s.listApprovals)},
		{pattern: "POST /v1/approvals", right: access.Approve, handle: s.approvals(withBody(s.denyApprovals))},
		{pattern: "GET /v1/approvals/changes", waits: true, right: access.Read, handle: s.approvals(s.approvalChanges)},
		{pattern: "GET /v1/approvals/rules", right: access.Read, handle: s.rules(s.listRules)},
		{pattern: "POST /v1/approvals/rules", right: access.Operate, handle: s.rules(withBody(s.addRule))},
		{pattern: "POST /v1/approvals/rules/preview", right: access.Operate, handle: s.rules(withBody(s.tryRule))},
		{pattern: "DELETE /v1/approvals/rules", right: access.Operate, handle: s.rules(s.removeRule)},
		{pattern: "GET /v1/approvals/{id}", right: access.Read, handle: s.approvals(s.getApproval)},
		{pattern: "POST /v1/approvals/{id}", right: access.Approve, handle: s.approvals(withBody(s.answerApproval))},

		{pattern: "GET /v1/usage", right: access.Read, handle: s.showUsage},
		{pattern: "GET /v1/doctor", waits: true, right: access.Operate, whole: true, handle: s.doctor},
		{pattern: "GET /v1/health", right: access.Public, handle: s.health},
		{pattern: "GET /v1/ready", right: access.Public, handle: s.ready},
		{pattern: "GET /metrics", right: access.Read, whole: true, handle: s.metrics.serve},
		{pattern: "GET /openapi.json", right: access.Read, handle: s.openAPI},
	}
	table = append(table, s.nodeRoutes()...)
	table = append(table, s.sandboxRoutes()...)
	table = append(table, s.fileRoutes()...)
	table = append(table, s.keyRoutes()...)
	table = append(table, s.configRoutes()...)
	table = append(table, s.portRoutes()...)
	table = append(table, s.consoleRoutes()...)
	if s.cfg.MCP != nil {
		table = append(table, route{pattern: "GET " + resourcePath, right: access.Public, handle: s.resource},
			route{pattern: "GET " + resourcePath + "/mcp", right: access.Public, handle: s.resource})
		table = append(table, route{pattern: "/mcp", waits: true, right: access.Run, handle: s.mcp})
	}
	return table
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range s.table() {
		mux.Handle(rt.pattern, s.wrap(rt))
	}
	mux.Handle("/", s.wrap(route{pattern: "/", right: access.Read, handle: s.unknown(mux)}))
	return mux
}

func nothingAt(r *http.Request) error {
	return corral.Errorf(corral.ErrNotFound, "see /openapi.json for what there is", "there is no %s", r.URL.Path)
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
			return nothingAt(r)
		}
		w.Header().Set("Allow", allowed)
		err := corral.Errorf(corral.ErrInvalid, "use "+allowed, "%s does not take %s", r.URL.Path, r.Method)
		_, body := api.Encode(err)
		return writeJSON(w, http.StatusMethodNotAllowed, body)
	}
}
