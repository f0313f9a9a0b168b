package hostexec

import (
	"context"
	"strings"

	"github.com/corral-exec/corral"
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

type agentKey struct{}

// WithAgent has it kept beside the processes that are started with the context
// whose they are, and what they were begun as: see corral.Info.Origin.
func WithAgent(ctx context.Context, agent string) context.Context {
	return context.WithValue(ctx, agentKey{}, agent)
}

// maxOriginText bounds the text of a command that is kept, in bytes.
const maxOriginText = 512

// origin is what is kept of a command; nil if nobody wants it.
func origin(ctx context.Context, cmd corral.Command) *corral.Origin {
	agent, _ := ctx.Value(agentKey{}).(string)
	if agent == "" {
		return nil
	}
	text := cmd.Shell
	if text == "" {
		text = strings.Join(cmd.Args, " ")
	}
	if len(text) > maxOriginText {
		text = text[:maxOriginText] + "…"
	}
	return &corral.Origin{
		Agent: agent, Command: strings.ToValidUTF8(text, ""), TTY: cmd.TTY != nil, Stdin: cmd.Stdin, Merged: cmd.MergeStderr, Grace: cmd.Grace,
	}
}
