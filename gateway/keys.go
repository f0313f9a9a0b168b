package gateway

import (
	"net/http"
	"strconv"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
)

func (s *Server) keyRoutes() []route {
	table := []route{
		{pattern: "GET /v1/keys", right: access.Keys, handle: s.listKeys},
		{pattern: "POST /v1/keys", right: access.Keys, handle: withBody(s.newKey)},
		{pattern: "DELETE /v1/keys/{id}", right: access.Keys, handle: s.revokeKey},
		{pattern: "POST /v1/keys/{id}/rotate", right: access.Keys, handle: s.rotateKey},
	}
	for i := range table {
		// With keys of its own making, a key for some agents would have all.
		table[i].whole, table[i].handle = true, s.keys(table[i].handle)
	}
	return append(table, route{pattern: "GET /v1/key", right: access.Read, handle: s.ownKey})
}

func (s *Server) ownKey(w http.ResponseWriter, r *http.Request) error {
	g := access.From(r.Context())
	return writeJSON(w, http.StatusOK, api.Self{
		Name: g.Name, Role: string(g.Role), Rights: g.Role.Rights(), Agents: append([]string{}, g.Agents...), Hosts: append([]string{}, g.Hosts...), Quota: g.Quota,
	})
}

// keys is a handler of a gateway that has some.
func (s *Server) keys(h handler) handler {
	return having(s.cfg.Keys != nil, corral.Errorf(corral.ErrNotFound, "", "this gateway has no keys"), h)
}

func (s *Server) listKeys(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, api.Keys{Keys: s.cfg.Keys.List()})
}

func (s *Server) newKey(w http.ResponseWriter, r *http.Request, n api.NewKey) error {
	made, err := s.cfg.Keys.Create(n)
	if err != nil {
		return err
	}
	s.log.Info("a key was made", "id", made.ID, "name", made.Name, "role", made.Role, "by", access.From(r.Context()).Name)
	w.Header().Set("Cache-Control", "no-store")
	return writeJSON(w, http.StatusCreated, made)
}

func (s *Server) revokeKey(w http.ResponseWriter, r *http.Request) error {
	if err := s.cfg.Keys.Revoke(r.PathValue("id")); err != nil {
		return err
	}
	s.log.Info("a key was revoked", "id", r.PathValue("id"), "by", access.From(r.Context()).Name)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) rotateKey(w http.ResponseWriter, r *http.Request) error {
	made, err := s.cfg.Keys.Rotate(r.PathValue("id"))
	if err != nil {
		return err
	}
	s.log.Info("a key was given another secret", "id", r.PathValue("id"), "now", made.ID, "name", made.Name, "by", access.From(r.Context()).Name)
	w.Header().Set("Cache-Control", "no-store")
	return writeJSON(w, http.StatusOK, made)
}

// resourcePath is where RFC 9728 has what a protected resource says of itself.
const resourcePath = "/.well-known/oauth-protected-resource"

func (s *Server) resource(w http.ResponseWriter, r *http.Request) error {
	return writeJSON(w, http.StatusOK, api.Resource{Resource: self(r) + "/mcp", Name: "Corral", Methods: []string{"header"}})
}

// self is the gateway's address as the caller has it.
func self(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// challenge is what a request without a key is answered with.
func challenge(r *http.Request) string {
	const bearer = `Bearer realm="corral"`
	if r.URL.Path != "/mcp" {
		return bearer
	}
	return bearer + ", resource_metadata=" + strconv.Quote(self(r)+resourcePath+"/mcp")
}
