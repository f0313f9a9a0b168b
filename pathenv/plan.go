package pathenv

import "context"

// A Plan is how a command is executed.
type Plan struct {
	Args []string // the program and its arguments; for shell text the shell's
	Dir  string   // working directory
	// Workspace is that of the executor.
	Workspace string
	Env       Environment // with the origin of what is in it
	Notice    string      // for Info.Notice: what is never in Env
	Warnings  []string    // complete sentences
}

// Rules say what commands inherit, and what becomes of a PATH of their own.
type Rules struct {
	EnvPath EnvPath  // what becomes of a PATH in a command's Env
	Keep    []string // variables to hand on that look like credentials
}

type rulesKey struct{}

// WithRules has the commands that are started and planned with the context go by
// these rules in place of those of their executor: callers of one may have rules of
// their own.
func WithRules(ctx context.Context, r Rules) context.Context {
	return context.WithValue(ctx, rulesKey{}, r)
}

// RulesFrom are the rules of a context; false: it has none.
func RulesFrom(ctx context.Context) (Rules, bool) {
	r, ok := ctx.Value(rulesKey{}).(Rules)
	return r, ok
}
