package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
)

// Sandboxes are those of a gateway's state directory, by their names. ErrNotFound
// if there is none of a name.
type Sandboxes interface {
	List(ctx context.Context) ([]api.Sandbox, error)
	Get(ctx context.Context, name string) (api.Sandbox, error)
	// Remove removes containers, with what runs in them, and the private
	// workspace.
	Remove(ctx context.Context, name string) error
	// Recreate makes a new container for commands that begin from now on.
	Recreate(ctx context.Context, name string) (api.Recreated, error)
	// Pause freezes what runs in a sandbox, and Resume has it go on.
	Pause(ctx context.Context, name string) error
	Resume(ctx context.Context, name string) error
	// Stats is what the container uses that commands go to.
	Stats(ctx context.Context, name string) (api.SandboxStats, error)
	// Log is what became of the container that was made last, and with all, of
	// those before it, as far as that is kept.
	Log(ctx context.Context, name string, all bool) (api.SandboxLog, error)
}

func (s *Server) sandboxRoutes() []route {
	table := []route{
		{pattern: "GET /v1/sandboxes/{name}", right: access.Read, handle: s.getSandbox},
		{pattern: "DELETE /v1/sandboxes/{name}", right: access.Operate, host: corral.HostSandbox, handle: s.toSandbox(Sandboxes.Remove)},
		{pattern: "POST /v1/sandboxes/{name}/recreate", waits: true, right: access.Operate, host: corral.HostSandbox, handle: s.recreateSandbox},
		{pattern: "POST /v1/sandboxes/{name}/pause", waits: true, right: access.Operate, host: corral.HostSandbox, handle: s.toSandbox(Sandboxes.Pause)},
		{pattern: "POST /v1/sandboxes/{name}/resume", waits: true, right: access.Operate, host: corral.HostSandbox, handle: s.toSandbox(Sandboxes.Resume)},
		{pattern: "GET /v1/sandboxes/{name}/stats", right: access.Read, handle: s.statSandbox},
		{pattern: "GET /v1/sandboxes/{name}/log", right: access.Read, handle: s.logSandbox},
		{pattern: "GET /v1/sandboxes/{name}/address", right: access.Run, host: corral.HostSandbox, handle: s.sandboxAddress},
	}
	for i := range table {
		table[i].handle = s.sandboxes(table[i].handle)
	}
	return append(table, route{pattern: "GET /v1/sandboxes", right: access.Read, handle: s.listSandboxes},
		route{pattern: "POST /v1/sandboxes/prune", waits: true, right: access.Operate, host: corral.HostSandbox, whole: true, handle: s.pruneSandboxes})
}

func (s *Server) pruneSandboxes(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Prune == nil {
		return errNoSandboxes
	}
	removed, err := s.cfg.Prune(r.Context())
	return answerJSON(w, api.Pruned{Removed: append([]string{}, removed...)}, err)
}

// sandboxes is a handler of a gateway that has some.
func (s *Server) sandboxes(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.cfg.Sandboxes == nil {
			return errNoSandboxes
		}
		ctx, cancel := s.whileServing(r.Context())
		defer cancel()
		if err := s.seesSandbox(ctx, r.PathValue("name")); err != nil {
			return err
		}
		return h(w, r.WithContext(ctx))
	}
}

// seesSandbox is nil if the caller may know of a sandbox. If not, the error is the same as
// for a name that no sandbox has.
func (s *Server) seesSandbox(ctx context.Context, name string) error {
	g := access.From(ctx)
	if g.All() {
		return nil
	}
	b, err := s.cfg.Sandboxes.Get(ctx, name)
	if err != nil && !errors.Is(err, corral.ErrNotFound) {
		return err
	}
	if err != nil || !g.Sees(b.Agent) { // and no hint of what others have
		return corral.Errorf(corral.ErrNotFound, "see which there are: GET /v1/sandboxes", "there is no sandbox %.80q", name)
	}
	return nil
}

func (s *Server) listSandboxes(w http.ResponseWriter, r *http.Request) error {
	list := []api.Sandbox{}
	if s.cfg.Sandboxes != nil {
		got, err := s.cfg.Sandboxes.List(r.Context())
		if err != nil {
			return err
		}
		list = append(list, got...)
	}
	g := access.From(r.Context())
	list = slices.DeleteFunc(list, func(b api.Sandbox) bool { return !g.Sees(b.Agent) })
	if agent := r.URL.Query().Get("agent"); agent != "" && agent != api.AllAgents {
		list = slices.DeleteFunc(list, func(b api.Sandbox) bool { return b.Agent != agent })
	}
	answer := api.Sandboxes{Sandboxes: list}
	if s.cfg.Pools != nil && g.All() {
		answer.Pools = s.cfg.Pools()
	}
	return writeJSON(w, http.StatusOK, answer)
}

func (s *Server) getSandbox(w http.ResponseWriter, r *http.Request) error {
	b, err := s.cfg.Sandboxes.Get(r.Context(), r.PathValue("name"))
	return answerJSON(w, b, err)
}

// toSandbox changes a sandbox. Its answer has no body.
func (s *Server) toSandbox(do func(k Sandboxes, ctx context.Context, name string) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return noContent(w, do(s.cfg.Sandboxes, r.Context(), r.PathValue("name")))
	}
}

func (s *Server) recreateSandbox(w http.ResponseWriter, r *http.Request) error {
	got, err := s.cfg.Sandboxes.Recreate(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	if got.Left == nil {
		got.Left = []string{}
	}
	return writeJSON(w, http.StatusOK, got)
}

func (s *Server) statSandbox(w http.ResponseWriter, r *http.Request) error {
	got, err := s.cfg.Sandboxes.Stats(r.Context(), r.PathValue("name"))
	return answerJSON(w, got, err)
}

func (s *Server) logSandbox(w http.ResponseWriter, r *http.Request) error {
	all, err := queryBool(r, "all")
	if err != nil {
		return err
	}
	got, err := s.cfg.Sandboxes.Log(r.Context(), r.PathValue("name"), all)
	if err != nil {
		return err
	}
	if got.Containers == nil {
		got.Containers = []api.SandboxLife{}
	}
	return writeJSON(w, http.StatusOK, got)
}
