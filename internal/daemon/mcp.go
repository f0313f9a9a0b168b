package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool/mcp"
)

// maxMCP is how many agents, with each model, are served over MCP at a time.
const maxMCP = 1000

// mcpServers serve MCP over HTTP: to each agent its own tools.
type mcpServers struct {
	make func(mcpClient) *mcp.Server

	mu      sync.Mutex
	closed  bool
	clients map[mcpClient]mcpServer
}

// An mcpClient has tools of its own: which there are depends on the model.
type mcpClient struct{ agent, model string }

type mcpServer struct {
	*mcp.Server
	handler http.Handler
}

// MCP is a server of the tools of an agent, for a client with a model.
func (s *Gateway) MCP(agent, model string) *mcp.Server { return s.newMCP(mcpClient{agent, model}) }

func (s *Gateway) newMCP(c mcpClient) *mcp.Server {
	return mcp.New(mcp.Config{
		Tools: agentTools{s, c.agent, c.model}, Version: s.opt.Version, Context: s.callerOf, Approves: s.approves, Log: s.log,
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
	if agent == "" {
		agent = session.DefaultAgent
	}
	if err := session.ValidateAgent(agent); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	handler, err := m.of(mcpClient{agent, config.CallerFrom(r.Context()).Model})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	handler.ServeHTTP(w, r)
}

func (m *mcpServers) of(c mcpClient) (http.Handler, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.clients[c]; ok {
		return s.handler, nil
	}
	switch {
	case m.closed:
		return nil, fmt.Errorf("the gateway is stopping")
	case len(m.clients) >= maxMCP:
		return nil, fmt.Errorf("%d agents and models are served already, and no more may be", maxMCP)
	}
	if m.clients == nil {
		m.clients = map[mcpClient]mcpServer{}
	}
	server := m.make(c)
	s := mcpServer{server, server.Handler()}
	m.clients[c] = s
	return s.handler, nil
}

// close lets go of clients. What they wait for should have ended before.
func (m *mcpServers) close(log *slog.Logger) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for c, s := range m.clients {
		if err := s.Close(); err != nil {
			log.Debug("cannot let go of clients", "agent", c.agent, "error", err)
		}
	}
	m.clients = nil
}
