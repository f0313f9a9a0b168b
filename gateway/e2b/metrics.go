package e2b

import (
	"net/http"
	"strconv"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

// used is how much of a processor a sandbox has used, in per cent, since it was asked last.
func (s *Server) used(id string, now api.SandboxStats, started time.Time) float64 {
	was := api.SandboxStats{At: started}
	if last, ok := s.samples.Swap(id, now); ok {
		was = last.(api.SandboxStats)
	}
	took := now.At.Sub(was.At)
	if took <= 0 || now.CPU < was.CPU {
		return 0
	}
	return 100 * float64(now.CPU-was.CPU) / float64(took)
}

// metric is what a sandbox uses at one moment.
type metric struct {
	Time      time.Time `json:"timestamp"`
	Unix      int64     `json:"timestampUnix"`
	CPUs      float64   `json:"cpuCount"`
	CPU       float64   `json:"cpuUsedPct"`
	Memory    int64     `json:"memUsed"`
	MemoryMax int64     `json:"memTotal"`
	MemCache  int64     `json:"memCache"`
	Disk      int64     `json:"diskUsed"`
	DiskMax   int64     `json:"diskTotal"`
}

// metrics says what a sandbox uses now, if now is in the time that is asked about: nothing
// is kept of earlier times. What it has on the disk is not measured.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request, b Box) error {
	from, err := unixParam(r, "start")
	if err != nil {
		return err
	}
	to, err := unixParam(r, "end")
	if err != nil {
		return err
	}
	now := time.Now()
	within := !b.Paused && !now.Before(from.Add(-slack)) && (to.IsZero() || !now.After(to.Add(slack)))
	list := []metric{}
	if within {
		st, err := s.cfg.Sandboxes.Stats(r.Context(), b.ID)
		if err != nil {
			return err
		}
		if st.Running {
			list = append(list, metric{
				Time: st.At, Unix: st.At.Unix(), CPUs: st.CPULimit, CPU: s.used(b.ID, st, b.Started), Memory: st.Memory, MemoryMax: st.MemoryLimit,
			})
		}
	}
	return writeJSON(w, http.StatusOK, list)
}

// slack is how far the clock of a client, in whole seconds, may be from now.
const slack = 5 * time.Second

// unixParam is a moment in the query; the zero time if it is not there.
func unixParam(r *http.Request, name string) (time.Time, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, corral.Errorf(corral.ErrInvalid, "use seconds since 1970", "the parameter %s is not understood: %w", name, err)
	}
	return time.Unix(n, 0), nil
}
