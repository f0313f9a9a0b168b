package corral

import "context"

type agentKey struct{}

// WithAgent returns a context whose commands belong to the agent. Nodes have rules for
// each agent. A warden keeps the agent and the origin of a process beside it.
func WithAgent(ctx context.Context, agent string) context.Context {
	return context.WithValue(ctx, agentKey{}, agent)
}

// AgentFrom returns the agent of a context, or "" if it has none.
func AgentFrom(ctx context.Context) string {
	agent, _ := ctx.Value(agentKey{}).(string)
	return agent
}
