package hostexec

import (
	"context"

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
