package cli

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/corral-exec/corral/internal/api"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool/mcp"
)

// maxMCP is how many agents are served over MCP at a time.
const maxMCP = 1000

// mcpServers serve MCP over HTTP: to each agent its own tools.
type mcpServers struct {
	make func(agent string) *mcp.Server

	mu     sync.Mutex
	closed bool
	agents map[string]mcpServer
}

type mcpServer struct {
	*mcp.Server
	handler http.Handler
}

func (s *service) newMCP(agent string) *mcp.Server {
	return mcp.New(mcp.Config{Tools: s.newTools(agent), Version: s.app.versionInfo().Version, Log: s.log})
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
	handler, err := m.of(agent)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	handler.ServeHTTP(w, r)
}

func (m *mcpServers) of(agent string) (http.Handler, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.agents[agent]; ok {
		return s.handler, nil
	}
	switch {
	case m.closed:
		return nil, fmt.Errorf("the gateway is stopping")
	case len(m.agents) >= maxMCP:
		return nil, fmt.Errorf("%d agents are served already, and no more may be", maxMCP)
	}
	if m.agents == nil {
		m.agents = map[string]mcpServer{}
	}
	server := m.make(agent)
	s := mcpServer{server, server.Handler()}
	m.agents[agent] = s
	return s.handler, nil
}

// close lets go of clients. What they wait for should have ended before.
func (m *mcpServers) close(log *slog.Logger) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for agent, s := range m.agents {
		if err := s.Close(); err != nil {
			log.Debug("cannot let go of clients", "agent", agent, "error", err)
		}
	}
	m.agents = nil
}
