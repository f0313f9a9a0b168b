package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/tool"
	"github.com/corral-exec/corral/tool/mcp"
)

func mcpOfNoTools(t *testing.T) *mcpServers {
	m := &mcpServers{make: func(string, string) *mcp.Server { return mcp.New(mcp.Config{Tools: noTools{}}) }, end: func() {}}
	t.Cleanup(func() { m.close(slog.New(slog.DiscardHandler)) })
	return m
}

// post makes a request for an agent, with a key and a model, and returns its status.
func (m *mcpServers) post(key, agent, model string) int {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader("{}"))
	r.Header.Set(api.HeaderAgent, agent)
	ctx := access.WithGrant(config.WithCaller(r.Context(), config.Caller{Model: model}), &access.Grant{ID: key})
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r.WithContext(ctx))
	return w.Code
}

// A client that names ever other models, which are any text, keeps nobody out.
func TestMCPModels(t *testing.T) {
	m := mcpOfNoTools(t)
	m.post("b", "b-1", "")
	for i := range 2 * maxMCP {
		if code := m.post("a", "main", fmt.Sprint("m", i)); code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
			t.Fatalf("model %d: %d", i, code)
		}
	}
	if len(m.served) != maxMCP || m.served[mcpTools{agent: "b-1"}] == nil {
		t.Errorf("there are %d servers, or that of another key was let go of", len(m.served))
	}
}

// A key for many agents does not keep others out.
func TestMCPFull(t *testing.T) {
	m := mcpOfNoTools(t)
	m.post("b", "b-1", "")
	for i := range 2 * maxMCP { // no client stays
		if code := m.post("a", fmt.Sprint("a-", i), ""); code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
			t.Fatalf("agent %d: %d", i, code)
		}
	}
	if len(m.served) != maxMCP || m.served[mcpTools{agent: "b-1"}] == nil {
		t.Errorf("there are %d servers, or that of another key was let go of", len(m.served))
	}
	for tools := range m.served {
		if tools.agent != "b-1" {
			if _, err := m.of(tools.agent, tools.model, "a"); err != nil { // and it stays
				t.Fatal(err)
			}
		}
	}
	if code := m.post("a", "a-more", ""); code != http.StatusTooManyRequests {
		t.Errorf("one more with clients, of a key that has nearly all: %d", code)
	}
	for i := range 10 {
		if code := m.post("b", fmt.Sprint("b-", i), ""); code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
			t.Errorf("another key: %d", code)
		}
	}
	m.close(slog.New(slog.DiscardHandler))
	if _, err := m.of("main", "", "b"); err == nil || errors.Is(err, api.ErrTooMany) {
		t.Errorf("after it was closed: %v", err)
	}
}

type noTools struct{}

func (noTools) Definitions() []tool.Definition { return nil }
func (noTools) Call(context.Context, string, json.RawMessage) (tool.Result, error) {
	return nil, errors.ErrUnsupported
}
