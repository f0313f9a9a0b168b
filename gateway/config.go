package gateway

import (
	"net/http"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/access"
)

// A Configuration is the file that a gateway goes by.
type Configuration interface {
	// Show is what it says for an agent: of some keys, or of all that apply to it.
	Show(agent string, keys []string) (api.Configuration, error)
	// Change changes one key. It is an ErrConflict if the file has another version.
	Change(api.ConfigChange) (api.ConfigChanged, error)
}

var errNoConfiguration = corral.Errorf(corral.ErrNotFound, "give it one with --config", "this gateway has no configuration file")

func (s *Server) configRoutes() []route {
	has := s.cfg.Configuration != nil
	return []route{
		{pattern: "GET /v1/config", right: access.Operate, whole: true, handle: having(has, errNoConfiguration, s.showConfig)},
		{pattern: "PATCH /v1/config", right: access.Configure, whole: true, handle: having(has, errNoConfiguration, withBody(s.changeConfig))},
		{pattern: "GET /v1/config/schema", right: access.Read, handle: s.configSchema},
	}
}

func (s *Server) showConfig(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	shown, err := s.cfg.Configuration.Show(q.Get("agent"), q["key"])
	return answerJSON(w, shown, err)
}

func (s *Server) changeConfig(w http.ResponseWriter, r *http.Request, c api.ConfigChange) error {
	changed, err := s.cfg.Configuration.Change(c)
	if err != nil {
		return err
	}
	s.log.Info("the configuration was changed", "key", c.Key, "removed", c.Value == nil, "by", access.From(r.Context()).Name)
	return writeJSON(w, http.StatusOK, changed)
}

func (s *Server) configSchema(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", api.TypeJSON)
	_, err := w.Write(config.Schema())
	return err
}
