package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/e2b"
	"github.com/corral-exec/corral/gateway/ports"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/session"
)

// Limits and defaults.
const (
	// StallLimit is how long a client may take nothing, or send nothing of a
	// body that it announced, before it is cut off.
	StallLimit = 30 * time.Second

	DefaultFollowRate   = 32 << 20
	DefaultMaxFollowers = 2048
	DefaultDrainLimit   = 10 * time.Second

	// idleLimit is how long a connection may be without a request, also a new one: clients
	// keep connections that they opened and did not need yet, 90 s in Go's case, and a
	// request over one that is just closed is lost.
	idleLimit = 2 * time.Minute
)

// Config of a Server. Sessions is required.
type Config struct {
	Sessions *session.Manager

	// Tools returns an agent's tools. Nil: there are none.
	Tools func(agent string) Tools
	// Approvals are what commands wait for. Nil: there are none.
	Approvals Approvals
	// Rules are what allow-always is remembered in. Nil: there are none.
	Rules Rules
	// Policy answers what commands may do. Nil: nothing is known of that.
	Policy Policy
	// Doctor makes the checks of corral doctor. Nil: there are none.
	Doctor func(context.Context) []api.Finding
	// Configuration is the file that it goes by. Nil: there is none.
	Configuration Configuration
	// Nodes are the machines that are paired. Nil: it does not listen for any.
	Nodes Nodes
	// SSHNodes are those that are reached by SSH. Nil: there are none.
	SSHNodes func() []api.Node
	// MCP serves /mcp. Nil: it is not served.
	MCP http.Handler
	// Sandboxes are those of all agents. Nil: there are none.
	Sandboxes Sandboxes
	// Prune removes what is old of sandboxes, as the configuration says, and returns the
	// names of the containers. Nil: there are no sandboxes.
	Prune func(context.Context) ([]string, error)
	// Pools are the containers that wait for new sandboxes. Nil: there are none.
	Pools func() []api.SandboxPool
	// Files are the files of an agent's sandbox. ErrNotFound if the agent has
	// none of that name. Nil: there are no sandboxes.
	Files func(ctx context.Context, agent, name string) (files.FS, error)
	// DialPort connects to a TCP port inside an agent's sandbox. The connection has a
	// method CloseWrite. ErrNotFound if the agent has no sandbox of that name,
	// ErrNotListening if nothing listens there. Nil: there are no sandboxes.
	DialPort func(ctx context.Context, agent, name string, port int) (net.Conn, error)
	// DialNode does the same on a node: in the agent's sandbox there, or on the machine.
	// The node is named as for commands. Nil: there are no nodes.
	DialNode func(ctx context.Context, agent, node string, port int) (net.Conn, error)
	// Domain is below which ports have host names, PORT-SANDBOX.DOMAIN. Zero: they have
	// none.
	Domain ports.Domain
	// PortSecret makes the tokens by which a sandbox's ports are opened. Empty: there are
	// none, and a key is needed.
	PortSecret ports.Secret
	// PublicPorts reports whether the ports of an agent's sandboxes are for everybody.
	// Nil: they are not.
	PublicPorts func(agent string) bool
	// E2B serves clients of E2B, on listeners of their own: see ForE2B. Nil: none.
	E2B *e2b.Server
	// Ready reports why the gateway cannot be used yet. Nil: it can.
	Ready func() error

	// Token is what requests over TCP have to show that have no key; on addresses of
	// the loopback interface alone. Without it there is no TCP. See Token.
	Token string
	// Keys are those of others than the gateway's owner. Nil: there are none.
	Keys *access.Store
	// SignIns are the browsers that are signed in to the console. Nil: none can be.
	SignIns *access.SignIns
	// TLS is for listeners of TCP. Nil: they have none, and are of the loopback interface.
	TLS *tls.Config
	// Hosts are names under which requests over TCP may address the gateway,
	// beside those of the loopback interface.
	Hosts []string
	// Origins are the web origins ("https://host:port") whose pages may call
	// the gateway.
	Origins []string

	// FollowRate is how many bytes a second are read of logs that are still
	// being written, by all followers together; what they cannot get at that
	// rate they get when the command has ended, or, if the log is bounded
	// and has dropped it by then, as a gap of known size. It is there so
	// that followers do not slow down the command that they follow; see
	// docs/reference/http.md for figures. 0: DefaultFollowRate, negative: no limit.
	FollowRate int64
	// MaxFollowers bounds how many logs, terminals, event streams and connections
	// to ports are open at a time. 0: DefaultMaxFollowers.
	MaxFollowers int
	// DrainLimit is how long Serve waits for requests when it has been told
	// to stop. 0: DefaultDrainLimit.
	DrainLimit time.Duration

	// Tracer makes spans of requests. Nil: none are made. See Tracing.
	Tracer trace.TracerProvider
	Log    *slog.Logger
}

// Tools are what models call, of one agent.
type Tools interface {
	// Call runs a tool with a JSON object as its arguments. What it returns
	// is encoded as JSON. What went wrong with a command is a result and no
	// error; errors are for calls that no tool could make sense of.
	Call(ctx context.Context, name string, args json.RawMessage) (any, error)
	// List describes the tools that the caller (see config.CallerFrom) has.
	List(ctx context.Context) []Tool
}

// A Tool describes a tool to a model.
type Tool = api.Tool

// A Server serves the API. It is an http.Handler as well, for servers of one's
// own; those have to see to listeners and to draining.
type Server struct {
	cfg     Config
	log     *slog.Logger
	handler http.Handler
	e2b     http.Handler // of clients of E2B; nil: there are none
	metrics *metrics
	ports   *ports.Proxy
	labels  labels
	pace    *pacer
	inputs  inputs
	usage   usage
	checkup checkup
	pages   []string // where browsers find it: it is written by Serve, before the first request
	wrong   wrongKeys

	heartbeat time.Duration
	followers chan struct{} // one token each
	stopping  context.Context
	stop      context.CancelFunc
}

// New makes a server.
func New(cfg Config) (*Server, error) {
	if cfg.Sessions == nil {
		return nil, corral.Errorf(corral.ErrInvalid, "set Config.Sessions", "a gateway without sessions was asked for")
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.FollowRate = cmp.Or(cfg.FollowRate, DefaultFollowRate)
	cfg.MaxFollowers = cmp.Or(cfg.MaxFollowers, DefaultMaxFollowers)
	cfg.DrainLimit = cmp.Or(cfg.DrainLimit, DefaultDrainLimit)
	s := &Server{
		cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Sessions), pace: newPacer(cfg.FollowRate),
		heartbeat: defaultHeartbeat, followers: make(chan struct{}, cfg.MaxFollowers),
	}
	s.ports = ports.NewProxy(s.log)
	if cfg.E2B != nil {
		s.e2b = s.e2bHandler()
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.handler = s.byHost(s.crossOrigin(s.routes()))
	if cfg.Tracer != nil {
		s.handler = otelhttp.NewHandler(s.handler, "corral", otelhttp.WithTracerProvider(cfg.Tracer))
	}
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.e2b != nil && (onE2B(r) || s.cfg.E2B.ByHost(r)) {
		s.e2b.ServeHTTP(w, r)
		return
	}
	s.handler.ServeHTTP(w, r)
}

// Drain begins the end: sessions in the foreground of a call go to the
// background, nothing new is started, streams are closed, and the gateway is
// not ready any more.
func (s *Server) Drain() {
	s.cfg.Sessions.Drain()
	s.stop()
}

func (s *Server) draining() bool { return s.stopping.Err() != nil }

// follow counts a client that stays. The context ends when the client goes away, or
// when the gateway drains.
func (s *Server) follow(r *http.Request) (_ context.Context, done func(), err error) {
	leave, err := s.stay(r.Context())
	if err != nil {
		return nil, nil, err
	}
	ctx, away := whilePresent(r)
	ctx, cancel := s.whileServing(ctx)
	return ctx, func() {
		cancel()
		away()
		leave()
	}, nil
}

// stay counts a client that stays, until leave is called.
func (s *Server) stay(ctx context.Context) (leave func(), err error) {
	left, err := access.From(ctx).Stay(cap(s.followers) - len(s.followers))
	if err != nil {
		return nil, err
	}
	select {
	case s.followers <- struct{}{}:
	default:
		left()
		return nil, corral.Errorf(corral.ErrUnavailable, "close some",
			"%d logs, terminals, event streams and connections to ports are open, and no more may be", cap(s.followers))
	}
	s.metrics.followers.Inc()
	return func() {
		s.metrics.followers.Dec()
		<-s.followers
		left()
	}, nil
}

// whileServing is ctx until the gateway drains, or the key or the sign-in of the request
// ends.
func (s *Server) whileServing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, ended := access.From(ctx).Context(ctx)
	ctx, signedOut := whileSignedIn(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	detach := context.AfterFunc(s.stopping, func() { cancel(errStopping) })
	return ctx, func() {
		detach()
		cancel(nil)
		signedOut()
		ended()
	}
}

var errStopping = corral.Errorf(corral.ErrUnavailable, "try again when it is back", "the gateway is stopping")
