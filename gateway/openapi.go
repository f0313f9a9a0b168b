package gateway

import (
	_ "embed"
	"net/http"

	"github.com/corral-exec/corral/api"
)

// openAPI describes the API. A test holds every request and answer of this
// package's tests against it.
//
//go:embed openapi.json
var openAPIDocument []byte

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", api.TypeJSON)
	_, err := w.Write(openAPIDocument)
	return err
}
