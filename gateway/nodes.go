package gateway

import (
	"context"
	"net/http"
	"slices"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
)

// Nodes are the machines that are paired, and those that ask to be. The hub of a
// gateway has these methods.
type Nodes interface {
	List(context.Context) api.Nodes
	Node(ctx context.Context, ref string) (api.Node, error)
	Change(ctx context.Context, ref string, c api.NodeChange) (api.Node, error)
	Forget(ref string) error

	Requests() []api.NodeRequest
	Approve(ctx context.Context, ref string, a api.NodeAnswer) (api.Node, error)
	Reject(ref, by string) error

	Join() api.NodeJoin
	Tokens() []api.NodeToken
	NewToken(api.NewNodeToken) (api.MadeNodeToken, error)
	Withdraw(id string) error
}

var errNoNodes = corral.Errorf(corral.ErrNotFound, "start the gateway with --nodes ADDRESS:PORT, or set nodes.listen", "this gateway does not listen for nodes")

// nodes is a handler of a gateway that has some.
func (s *Server) nodes(h handler) handler { return having(s.cfg.Nodes != nil, errNoNodes, h) }

func (s *Server) nodeRoutes() []route {
	table := []route{
		{pattern: "PATCH /v1/nodes/{id}", right: access.Operate, whole: true, handle: withBody(s.changeNode)},
		{pattern: "DELETE /v1/nodes/{id}", right: access.Operate, whole: true, handle: s.forgetNode},
		{pattern: "GET /v1/nodes/requests", right: access.Operate, whole: true, handle: s.listNodeRequests},
		{pattern: "POST /v1/nodes/requests/{id}", right: access.Operate, whole: true, handle: withBody(s.answerNodeRequest)},
		{pattern: "GET /v1/nodes/join", right: access.Operate, whole: true, handle: s.joinNodes},
		{pattern: "GET /v1/nodes/tokens", right: access.Operate, whole: true, handle: s.listNodeTokens},
		{pattern: "POST /v1/nodes/tokens", right: access.Operate, whole: true, handle: withBody(s.newNodeToken)},
		{pattern: "DELETE /v1/nodes/tokens/{id}", right: access.Operate, whole: true, handle: s.withdrawNodeToken},
	}
	for i := range table {
		table[i].handle = s.nodes(table[i].handle)
	}
	return append(table, route{pattern: "GET /v1/nodes", right: access.Read, handle: s.listNodes}, route{pattern: "GET /v1/nodes/{id}", right: access.Read, handle: s.getNode})
}

// sshNodes are the nodes that are reached by SSH.
func (s *Server) sshNodes() []api.Node {
	if s.cfg.SSHNodes == nil {
		return nil
	}
	return s.cfg.SSHNodes()
}

func (s *Server) listNodes(w http.ResponseWriter, r *http.Request) error {
	list, others := api.Nodes{Listen: []string{}, Nodes: []api.Node{}}, s.sshNodes()
	switch {
	case s.cfg.Nodes != nil:
		list = s.cfg.Nodes.List(r.Context())
	case len(others) == 0:
		return errNoNodes
	}
	list.Nodes = append(list.Nodes, others...)
	return writeJSON(w, http.StatusOK, list)
}

func (s *Server) getNode(w http.ResponseWriter, r *http.Request) error {
	others := s.sshNodes()
	if i := slices.IndexFunc(others, func(n api.Node) bool { return n.Name == r.PathValue("id") }); i >= 0 {
		return writeJSON(w, http.StatusOK, others[i])
	}
	if s.cfg.Nodes == nil {
		return errNoNodes
	}
	n, err := s.cfg.Nodes.Node(r.Context(), r.PathValue("id"))
	return answerJSON(w, n, err)
}

func (s *Server) changeNode(w http.ResponseWriter, r *http.Request, c api.NodeChange) error {
	n, err := s.cfg.Nodes.Change(r.Context(), r.PathValue("id"), c)
	return answerJSON(w, n, err)
}

func (s *Server) forgetNode(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, s.cfg.Nodes.Forget(r.PathValue("id")))
}

func (s *Server) listNodeRequests(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, api.NodeRequests{Requests: s.cfg.Nodes.Requests()})
}

func (s *Server) answerNodeRequest(w http.ResponseWriter, r *http.Request, a api.NodeAnswer) error {
	switch a.Decision {
	case api.NodeApprove:
		n, err := s.cfg.Nodes.Approve(r.Context(), r.PathValue("id"), a)
		return answerJSON(w, n, err)
	case api.NodeReject:
		return noContent(w, s.cfg.Nodes.Reject(r.PathValue("id"), a.By))
	}
	return corral.Errorf(corral.ErrInvalid, "use approve or reject", "there is no decision %.40q", a.Decision)
}

func (s *Server) joinNodes(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, s.cfg.Nodes.Join())
}

func (s *Server) listNodeTokens(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, api.NodeTokens{Tokens: s.cfg.Nodes.Tokens()})
}

func (s *Server) newNodeToken(w http.ResponseWriter, r *http.Request, n api.NewNodeToken) error {
	made, err := s.cfg.Nodes.NewToken(n)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return writeJSON(w, http.StatusCreated, made)
}

func (s *Server) withdrawNodeToken(w http.ResponseWriter, r *http.Request) error {
	return noContent(w, s.cfg.Nodes.Withdraw(r.PathValue("id")))
}
