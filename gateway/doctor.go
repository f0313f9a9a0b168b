package gateway

import (
	"net/http"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// findingsAge is how long the doctor's findings are shown before it looks again: that asks
// the engine, and starts a login shell.
const findingsAge = time.Minute

// checkup keeps the doctor's findings.
type checkup struct {
	mu   sync.Mutex
	last api.Findings
}

var errNoDoctor = corral.Errorf(corral.ErrNotFound, "use corral doctor on its machine", "this gateway has no doctor")

func (s *Server) doctor(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Doctor == nil {
		return errNoDoctor
	}
	s.checkup.mu.Lock()
	defer s.checkup.mu.Unlock()
	if time.Since(s.checkup.last.At) > findingsAge {
		found := append([]api.Finding{}, s.cfg.Doctor(r.Context())...)
		if err := r.Context().Err(); err != nil { // what it found is about that
			return err
		}
		s.checkup.last = api.Findings{At: time.Now().UTC(), Findings: found}
	}
	return writeJSON(w, http.StatusOK, s.checkup.last)
}
