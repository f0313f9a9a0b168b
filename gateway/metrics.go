package gateway

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/corral-exec/corral/session"
)

// metrics are what /metrics shows. docs/reference/http.md lists them.
type metrics struct {
	handler   http.Handler
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	sent      prometheus.Counter

	followers  prometheus.Gauge
	logBytes   prometheus.Counter
	stdinBytes prometheus.Counter
	portBytes  *prometheus.CounterVec

	byKey     *prometheus.CounterVec
	wrongKeys prometheus.Counter

	// The same for usage: all requests, those that failed here, and those that wait for
	// nothing, with the time that they took.
	all, errors, quick, took atomic.Int64
}

func newMetrics(sessions *session.Manager) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corral_http_requests_total", Help: "Requests answered, by route and status.",
		}, []string{"route", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "corral_http_request_duration_seconds", Help: "Time from a request to the end of its answer.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .05, .1, .5, 1, 5, 10, 60, 600},
		}, []string{"route"}),
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corral_http_response_bytes_total", Help: "Bytes of answers.",
		}),
		followers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "corral_followers", Help: "Logs, terminals, event streams and connections to ports that are open.",
		}),
		logBytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corral_log_read_bytes_total", Help: "Bytes of logs sent to clients.",
		}),
		stdinBytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corral_stdin_bytes_total", Help: "Bytes of input that commands have taken from clients.",
		}),
		portBytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corral_port_bytes_total", Help: "Bytes moved to and from ports of sandboxes, by direction (in: to the sandbox).",
		}, []string{"direction"}),
		byKey: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corral_key_requests_total", Help: "Requests by the name of the key that they had, and what became of them: served, denied (401, 403) or limited (429).",
		}, []string{"key", "answer"}),
		wrongKeys: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corral_wrong_keys_total", Help: "Requests with no key, or one that is wrong, revoked or expired.",
		}),
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(m.requests, m.durations, m.sent, m.followers, m.logBytes, m.stdinBytes, m.portBytes, m.byKey, m.wrongKeys,
		sessionMetrics{sessions}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	return m
}

func (m *metrics) serve(w http.ResponseWriter, r *http.Request) error {
	m.handler.ServeHTTP(w, r)
	return nil
}

// counts are what usage goes by.
func (m *metrics) counts(sessions *session.Manager) counts {
	c := counts{requests: m.all.Load(), errors: m.errors.Load(), quick: m.quick.Load(), took: time.Duration(m.took.Load())}
	c.begun, c.failed = sessions.Totals()
	return c
}

// key counts a request by the key that it had; empty: it had none that is right.
func (m *metrics) key(name string, status int) {
	answer := "served"
	switch {
	case name == "" && (status == http.StatusUnauthorized || status == http.StatusTooManyRequests):
		m.wrongKeys.Inc()
		return
	case name == "":
		return
	case status == http.StatusTooManyRequests:
		answer = "limited"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		answer = "denied"
	}
	m.byKey.WithLabelValues(name, answer).Inc()
}

// route returns the metrics of one route, found once.
func (m *metrics) route(rt route) *routeMetrics {
	return &routeMetrics{m: m, name: rt.pattern, waits: rt.waits || rt.foreign != nil, took: m.durations.WithLabelValues(rt.pattern)}
}

type routeMetrics struct {
	m      *metrics
	name   string
	waits  bool
	took   prometheus.Observer
	counts sync.Map // status → prometheus.Counter
}

func (r *routeMetrics) observe(status int, took time.Duration, bytes int64) {
	if status == 0 { // a handler that wrote nothing
		status = http.StatusOK
	}
	counter, ok := r.counts.Load(status)
	if !ok {
		counter, _ = r.counts.LoadOrStore(status, r.m.requests.WithLabelValues(r.name, strconv.Itoa(status)))
	}
	counter.(prometheus.Counter).Inc()
	r.took.Observe(took.Seconds())
	r.m.sent.Add(float64(bytes))
	r.m.all.Add(1)
	if status >= 500 {
		r.m.errors.Add(1)
	}
	if !r.waits {
		r.m.quick.Add(1)
		r.m.took.Add(int64(took))
	}
}

// sessionMetrics asks the Manager when it is asked.
type sessionMetrics struct{ sessions *session.Manager }

var (
	sessionsDesc = prometheus.NewDesc("corral_sessions", "Sessions that are kept, by state; running ones are those that run.", []string{"state"}, nil)
	eventsDesc   = prometheus.NewDesc("corral_events_total", "Number of the last event.", nil, nil)
)

func (c sessionMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- sessionsDesc
	ch <- eventsDesc
}

func (c sessionMetrics) Collect(ch chan<- prometheus.Metric) {
	counts := c.sessions.Counts()
	for _, state := range []session.State{session.Running, session.Completed, session.Failed, session.Unknown} {
		ch <- prometheus.MustNewConstMetric(sessionsDesc, prometheus.GaugeValue, float64(counts[state]), string(state))
	}
	ch <- prometheus.MustNewConstMetric(eventsDesc, prometheus.CounterValue, float64(c.sessions.LastEvent()))
}
