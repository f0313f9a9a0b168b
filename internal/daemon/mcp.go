package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool/mcp"
)

// maxMCP is how many servers there are at a time.
const maxMCP = 1000

// mcpServers serve MCP over HTTP: to each agent its own tools.
type mcpServers struct {
	make func(agent, model string) *mcp.Server
	life context.Context // of calls
	end  context.CancelFunc

	mu     sync.Mutex
	closed bool
	served map[mcpTools]*mcpServer
}

// mcpTools are those of a server: of an agent, for a model, which is any text.
type mcpTools struct{ agent, model string }

type mcpServer struct {
	*mcp.Server
	handler  http.Handler
	by       string // the key with which it was asked for first
	requests int    // under way
	used     time.Time
}

func (s *mcpServer) busy() bool { return s.requests > 0 || s.Clients() > 0 }

// MCP is a server of the tools of an agent, for a client with a model.
func (s *Gateway) MCP(agent, model string) *mcp.Server { return s.newMCP(agent, model) }

func (s *Gateway) newMCP(agent, model string) *mcp.Server {
	return mcp.New(mcp.Config{
		Tools: agentTools{s, agent, model}, Version: s.opt.Version, Context: s.callerOf, Approves: s.approves, Log: s.log,
	})
}

// approves says whether who calls may answer approvals, and why not for good, as over
// HTTP. On standard input and output the caller is the operator.
func (s *Gateway) approves(ctx context.Context) (may bool, always error) {
	return access.From(ctx).Role.Has(access.Approve), gateway.Widens(ctx, hostPolicy{s.hosts}, "to allow always")
}

// ServeHTTP passes a request on to the server of its agent.
func (m *mcpServers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	agent := r.Header.Get(api.HeaderAgent)
	agent = cmp.Or(agent, session.DefaultAgent)
	if err := session.ValidateAgent(agent); err != nil {
		mcp.Refuse(w, err)
		return
	}
	server, err := m.of(agent, config.CallerFrom(r.Context()).Model, access.From(r.Context()).Ref())
	if err != nil {
		mcp.Refuse(w, err)
		return
	}
	defer m.done(server)
	server.handler.ServeHTTP(w, r)
}

// of is the server for an agent with a model, until done, for a request with the key by.
func (m *mcpServers) of(agent, model, by string) (*mcpServer, error) {
	tools := mcpTools{agent, model}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.served[tools]
	switch {
	case s != nil:
	case m.closed:
		return nil, corral.Errorf(corral.ErrUnavailable, "try again when it is back", "the gateway is stopping")
	default:
		if err := m.makeRoom(by); err != nil {
			return nil, err
		}
		if m.served == nil {
			m.served = map[mcpTools]*mcpServer{}
		}
		server := m.make(agent, model)
		s = &mcpServer{Server: server, handler: server.Handler(), by: by}
		m.served[tools] = s
	}
	s.requests++
	s.used = time.Now()
	return s, nil
}

func (m *mcpServers) done(s *mcpServer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.requests--
	s.used = time.Now()
}

// makeRoom lets go of the server that was unused longest, if there are as many as there
// may be: of a key that has most of them, so that none keeps the others out. Those with
// clients are spared while there is another, and a key that has most of them itself gets
// no more for them.
func (m *mcpServers) makeRoom(by string) error {
	if len(m.served) < maxMCP {
		return nil
	}
	has := map[string]int{}
	for _, s := range m.served {
		has[s.by]++
	}
	most := by
	for key, n := range has {
		if n > has[most] {
			most = key
		}
	}
	var last mcpTools
	var spare *mcpServer
	var busy bool
	for tools, s := range m.served {
		if s.by != most {
			continue
		}
		if b := s.busy(); spare == nil || busy && !b || b == busy && s.used.Before(spare.used) {
			last, spare, busy = tools, s, b
		}
	}
	if busy && most == by {
		return corral.Errorf(api.ErrTooMany, "end sessions of MCP that are not in use", "%d agents of this key have clients over MCP, and no more may", has[by])
	}
	delete(m.served, last)
	go func() { _ = spare.Close() }() // it waits for what clients do, and fails where they are gone
	return nil
}

// whileOpen is the context of a call, until close.
func (m *mcpServers) whileOpen(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	detach := context.AfterFunc(m.life, cancel)
	context.AfterFunc(ctx, func() { detach() })
	return ctx
}

// close ends calls and lets go of clients.
func (m *mcpServers) close(log *slog.Logger) {
	m.end()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for tools, s := range m.served {
		if err := s.Close(); err != nil {
			log.Debug("cannot let go of clients", "agent", tools.agent, "error", err)
		}
	}
	m.served = nil
}
