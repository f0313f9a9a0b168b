package pathenv

import (
	"slices"
	"strings"
	"sync"

	"github.com/corral-exec/corral"
)

// A Planner plans the commands of a sandbox. Those that ask for nothing special have the
// same environment, which is made once.
type Planner struct {
	options     SandboxOptions
	shell, args func() (Plan, error)
}

// plainText stands for the text of any command.
const plainText = ":"

// NewPlanner returns a Planner with these options. Each command sets Shell, Args, Call and
// TTY, and its PathPrepend goes before that of the options.
func NewPlanner(o SandboxOptions) *Planner {
	p := &Planner{options: o}
	p.shell = sync.OnceValues(func() (Plan, error) { return p.plan(corral.Command{Shell: plainText}) })
	p.args = sync.OnceValues(func() (Plan, error) { return p.plan(corral.Command{Args: []string{plainText}}) })
	return p
}

// Plan is [Sandbox] for a valid command.
func (p *Planner) Plan(cmd corral.Command) (Plan, error) {
	if len(cmd.Env) > 0 || len(cmd.PathPrepend) > 0 || cmd.TTY != nil {
		return p.plan(cmd)
	}
	if cmd.Shell == "" {
		plan, err := p.args()
		plan.Args = cmd.Args
		return plan, err
	}
	plan, err := p.shell()
	if err == nil {
		last := len(plan.Args) - 1
		plan.Args = append(slices.Clip(plan.Args[:last]), strings.TrimSuffix(plan.Args[last], plainText)+cmd.Shell)
	}
	return plan, err
}

func (p *Planner) plan(cmd corral.Command) (Plan, error) {
	o := p.options
	o.Shell, o.Args, o.Call, o.TTY = cmd.Shell, cmd.Args, cmd.Env, cmd.TTY != nil
	o.PathPrepend = append(slices.Clone(cmd.PathPrepend), o.PathPrepend...)
	return Sandbox(o)
}
