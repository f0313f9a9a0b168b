package corral

import "context"

type agentKey struct{}

// WithAgent has what is started with the context be an agent's: nodes have rules for
// each, and where a warden keeps processes, sandboxes among them, it is kept beside
// them whose they are and what they were begun as.
func WithAgent(ctx context.Context, agent string) context.Context {
	return context.WithValue(ctx, agentKey{}, agent)
}

// AgentFrom is the agent of a context; empty if it has none.
func AgentFrom(ctx context.Context) string {
	agent, _ := ctx.Value(agentKey{}).(string)
	return agent
}
