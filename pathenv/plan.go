package pathenv

import "context"

// A Plan says how a command is executed.
type Plan struct {
	Args []string // the program and its arguments; for shell text the shell's
	Dir  string   // working directory
	// Workspace is the executor's workspace.
	Workspace string
	Env       Environment // with the origin of each part
	// Snapshot: if Args are a login shell's, its profile may be read beforehand, as
	// docs/explain/login.md says.
	Snapshot bool
	Notice   string   // for Info.Notice: the variables that are never in Env
	Warnings []string // complete sentences
}

// Rules say which variables commands inherit, and how a PATH in their Env is handled.
type Rules struct {
	EnvPath EnvPath  // how a PATH in a command's Env is handled
	Keep    []string // variables that commands get although they look like credentials
}

type rulesKey struct{}

// WithRules returns a context in which commands are started and planned by these rules,
// in place of those of their executor. So each caller of an executor can have its own
// rules.
func WithRules(ctx context.Context, r Rules) context.Context {
	return context.WithValue(ctx, rulesKey{}, r)
}

// RulesFrom are the rules of a context; false: it has none.
func RulesFrom(ctx context.Context) (Rules, bool) {
	r, ok := ctx.Value(rulesKey{}).(Rules)
	return r, ok
}
