package e2b

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/gateway/ports"
	"github.com/corral-exec/corral/internal/turn"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/session"
)

// EnvdVersion is the version of E2B's daemon whose wire this is: by it clients decide
// what they can ask for.
const EnvdVersion = "0.6.13"

// Home is where a client of E2B's expects the files of its user.
const Home = "/home/user"

// Sandboxes are what E2B's are made of.
type Sandboxes interface {
	// Warm has the container ready that commands with this context go to: its
	// conversation is a sandbox's of E2B. ErrDenied if they would go anywhere else.
	Warm(ctx context.Context, agent string) error
	// EndAfter has a sandbox end by itself some time from now, also if no gateway runs
	// then; 0: it does not. errors.ErrUnsupported if it cannot.
	EndAfter(ctx context.Context, agent, name string, after time.Duration) error
	// Get describes a sandbox as it was made. Whether it runs is not asked.
	Get(ctx context.Context, name string) (api.Sandbox, error)
	// Stats is what it uses.
	Stats(ctx context.Context, name string) (api.SandboxStats, error)
	// Remove removes it, with what runs in it.
	Remove(ctx context.Context, name string) error
	// Pause freezes all that runs in it, and Resume has it go on.
	Pause(ctx context.Context, name string) error
	Resume(ctx context.Context, name string) error
	// Stop ends what runs in it; its files stay, and Warm has it ready again.
	Stop(ctx context.Context, agent, name string) error
	// Files are its files.
	Files(ctx context.Context, agent, name string) (files.FS, error)
	// Volume makes a directory that sandboxes of an agent are to mount, unless it is there,
	// and returns its files. errors.ErrUnsupported if they could not mount it.
	Volume(ctx context.Context, agent, dir string) (files.FS, error)
	// RemoveVolume removes such a directory.
	RemoveVolume(dir string) error
	// DialPort connects to a port of it.
	DialPort(ctx context.Context, agent, name string, port int) (net.Conn, error)
	// Forget lets go of a sandbox that was removed.
	Forget(name string) error
}

// Config of a Server. All but Domain and Log is required.
type Config struct {
	Store     *Store
	Sessions  *session.Manager
	Sandboxes Sandboxes
	// Grant is what a key allows that made a sandbox, by its Ref.
	Grant func(ref string) *access.Grant
	// Domain is below which sandboxes have host names. Zero: clients name them in headers.
	Domain ports.Domain
	// Settings are read for every call.
	Settings func() config.E2B
	// CodeImage is the image of the template for a code interpreter.
	CodeImage string
	Log       *slog.Logger
}

// A Server is what a gateway serves to clients of E2B.
type Server struct {
	cfg      Config
	log      *slog.Logger
	procs    procs
	turns    turn.Keyed[string] // pausing, resuming and removing a sandbox, by its ID
	samples  sync.Map           // what sandboxes used when it was asked last, an api.SandboxStats by ID
	watchers watchers
	opened   opened
	builds   builds
	signing  []byte // of links for uploads

	life  context.Context // ends with Close
	end   context.CancelFunc
	owned sync.WaitGroup
	wake  chan struct{} // a deadline has changed
}

// New makes a Server, which ends sandboxes at their deadlines until it is closed.
func New(cfg Config) *Server {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Server{cfg: cfg, log: cfg.Log, signing: []byte(newToken()), wake: make(chan struct{}, 1)}
	s.watchers.of, s.watchers.streams = map[string]map[string]*watch{}, map[string]int{}
	s.life, s.end = context.WithCancel(context.Background())
	s.sweepVolumes()
	s.owned.Go(s.keepDeadlines)
	return s
}

// Close ends what the Server does by itself. Sandboxes stay.
func (s *Server) Close() {
	s.end()
	s.owned.Wait()
}

// A Route is one operation.
type Route struct {
	Pattern string       // of http.ServeMux
	Right   access.Right // what a key needs for it
	Stays   bool         // it is open for as long as the client likes
	Handle  func(w http.ResponseWriter, r *http.Request) error
	// Grant is by what right a request is made, where it has no key: nil where it has.
	Grant func(r *http.Request) (*http.Request, *access.Grant, error)
}

// Target is the sandbox, and the port of it, that a request is for: by its host name
// PORT-ID.DOMAIN, or by two headers where the host is no such name.
func (s *Server) Target(r *http.Request) (id, port string, ok bool) {
	switch n, label, inside, ok := s.cfg.Domain.Match(r.Host); {
	case ok:
		return label, strconv.Itoa(n), true
	case inside && !isAPI(r): // of no sandbox
		return "", "", true
	}
	id, port = r.Header.Get("E2b-Sandbox-Id"), r.Header.Get("E2b-Sandbox-Port")
	return id, port, id != "" && port != ""
}

// ByHost reports whether the host that a request is addressed to is one for clients of
// E2B: api.DOMAIN, or a port of one of their sandboxes.
func (s *Server) ByHost(r *http.Request) bool {
	_, label, inside, ok := s.cfg.Domain.Match(r.Host)
	if !ok {
		return inside && isAPI(r)
	}
	_, ok = s.cfg.Store.Get(label)
	return ok
}

// isAPI reports whether a host below the domain is that of the control plane.
func isAPI(r *http.Request) bool { return strings.HasPrefix(strings.ToLower(r.Host), "api.") }

type boxKey struct{}

// boxOf is the sandbox of a request that Enter let in.
func boxOf(ctx context.Context) Box { return ctx.Value(boxKey{}).(Box) }

// enter notes the sandbox of a request, for what is done with it: by whose right, and
// where commands go.
func (s *Server) enter(r *http.Request, b Box) *http.Request {
	return r.WithContext(s.within(r.Context(), b))
}

func (s *Server) within(ctx context.Context, b Box) context.Context {
	caller := config.CallerFrom(ctx)
	caller.Session = b.Session()
	return config.WithCaller(context.WithValue(ctx, boxKey{}, b), caller)
}

// agentFor is whose a key's sandboxes are: the one that the key is for, or else the one
// that is configured for all.
func (s *Server) agentFor(g *access.Grant) (string, error) {
	if only, ok := g.Only(); ok {
		return only, nil
	}
	agent := cmp.Or(s.cfg.Settings().Agent.Value, config.DefaultE2BAgent)
	return agent, g.CheckAgent(agent)
}

// find returns a sandbox that exists for a caller.
func (s *Server) find(r *http.Request) (Box, error) {
	id := r.PathValue("id")
	// Clients of earlier days put the ID of a client behind it.
	id, _, _ = strings.Cut(id, "-")
	b, ok := s.cfg.Store.Get(id)
	if !ok || !access.From(r.Context()).Sees(b.Agent) || s.over(b) {
		return Box{}, notFound(id)
	}
	return b, nil
}

// onBox is a handler that is given the sandbox that a request is about.
func (s *Server) onBox(h func(w http.ResponseWriter, r *http.Request, b Box) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		b, err := s.find(r)
		if err != nil {
			return err
		}
		return h(w, r, b)
	}
}

// over reports whether a sandbox's time is over, and it is only still there because it is
// about to be removed.
func (s *Server) over(b Box) bool { return !b.Paused && !b.PauseAtEnd && !time.Now().Before(b.End) }

// Image is that of a template, and whether there is one of the name. Empty: the agent's.
func Image(c config.E2B, template string) (image string, ok bool) {
	list := c.Templates.Value
	i := slices.IndexFunc(list, func(t string) bool { return strings.HasPrefix(t, template+"=") })
	if i >= 0 && template != "" {
		return strings.TrimPrefix(list[i], template+"="), true
	}
	return "", template == DefaultTemplate
}

// configured is what a template begins with that is not built.
func (s *Server) configured(template string) (source, bool) {
	if image, ok := Image(s.cfg.Settings(), template); ok {
		return source{image: image, of: image}, true
	}
	if slices.Contains(codeTemplates, template) {
		return source{image: s.cfg.CodeImage, preset: codePreset, of: s.cfg.CodeImage}, true
	}
	return source{}, false
}

// DefaultTemplate is that of a client that names none. It is there in any case.
const DefaultTemplate = "base"

// cleanly is a context for what is to be done although its caller may be gone.
func cleanly(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), callLimit)
}

// callLimit bounds what is done for a sandbox as a whole.
const callLimit = 2 * time.Minute

// errGone is for a sandbox that is not there, or is paused.
func errGone(b string) error {
	return &Error{Status: http.StatusBadGateway, Message: "The sandbox was not found", Sandbox: b}
}

var errRoot = corral.Errorf(corral.ErrDenied, "leave the user out, or set gateway.e2b.root, or sandbox.root for the agent", "there is no root in this sandbox: commands and files are the sandbox's user's")
