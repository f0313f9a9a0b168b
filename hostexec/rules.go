package hostexec

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/corral-exec/corral/internal/wardenexec"
	"github.com/corral-exec/corral/pathenv"
)

// EnvRules say what commands inherit, and what becomes of a PATH of their own.
type EnvRules struct {
	EnvPath pathenv.EnvPath // what becomes of a PATH in a command's Env
	Keep    []string        // variables to hand on that look like credentials
}

type rulesKey struct{}

// WithEnvRules has the commands that are started and planned with the context go
// by these rules in place of those of Config: callers of one Executor may have
// rules of their own.
func WithEnvRules(ctx context.Context, r EnvRules) context.Context {
	return context.WithValue(ctx, rulesKey{}, r)
}

func (c *Config) rules(ctx context.Context) EnvRules {
	if r, ok := ctx.Value(rulesKey{}).(EnvRules); ok {
		return r
	}
	return EnvRules{EnvPath: c.EnvPath, Keep: c.Keep}
}

// Agents are the processes in a state directory that were begun for an agent (see
// WithAgent) and whose records are still there, and for which agent.
func Agents(stateDir string) (map[string]string, error) {
	agents, err := wardenexec.Agents(logDir(stateDir))
	if err != nil {
		return nil, fmt.Errorf("cannot read the records of this machine's commands: %w", err)
	}
	return agents, nil
}

func logDir(stateDir string) string { return filepath.Join(stateDir, "logs", "host") }

// WithAgent has it kept beside the processes that are started with the context
// whose they are, and what they were begun as: see corral.Info.Origin. It counts
// for every executor of which a warden keeps the processes, sandboxes among them.
func WithAgent(ctx context.Context, agent string) context.Context {
	return wardenexec.WithAgent(ctx, agent)
}
