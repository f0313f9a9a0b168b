package daemon

import (
	"fmt"
	"testing"

	"github.com/corral-exec/corral/internal/recent"
)

// Names that clients make up take no more memory than so much.
func TestAgentsThatAreMadeUp(t *testing.T) {
	h := &hosts{agents: recent.New[*agentHosts](recentAgents)}
	first := h.of("agent-0")
	if h.of("agent-0") != first {
		t.Error("it is made anew each time")
	}
	for i := range recentAgents + 1 {
		h.of(fmt.Sprint("agent-", i))
	}
	if again := h.of("agent-0"); again == first || again.name != "agent-0" {
		t.Error("it is still there")
	}
}
