package tool

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
)

// Config of Tools. Agent is required.
type Config struct {
	// Agent has the sessions. Sessions of other agents are not visible.
	Agent    session.Agent
	Defaults Defaults

	// Approve is called when a command needs an approval, and the call waits for
	// the answer. If it is nil or fails, the result is StatusApprovalPending, and
	// the command runs in the background once it is allowed. It needs Guard.
	// WithApprover sets one for a single call.
	Approve Approver
	// Guard is the guard.Guard of Agent's executor. Nil: it has none.
	Guard Guard

	// Allowed returns an error that says why the tool of a name may not be called;
	// nil if it may. If Allowed is nil, every tool may. Without the tool process,
	// exec runs every command to its end in the foreground, since no session could
	// be followed.
	Allowed func(name string) error

	// AttachPath returns the path at which the API streams a session, for process
	// attach. Nil: there is no such API.
	AttachPath func(sessionID string) string

	// MaxOutput bounds each of stdout, stderr and output of a result, in bytes. A
	// longer one is cut to its first and its last half. 0: DefaultMaxOutput.
	MaxOutput int

	Log *slog.Logger // nil: nothing is logged
}

// A Guard has people approve commands; see guard.Guard.Await.
type Guard interface {
	Await(ctx context.Context, rec approval.Record, approve func(context.Context, approval.Record) (approval.Answer, error), run func(approval.Record) error) (approval.Record, error)
}

// DefaultMaxOutput is how many bytes of output a result shows when
// Config.MaxOutput is 0.
const DefaultMaxOutput = 100_000

// Defaults are the values for fields that a request leaves out.
type Defaults struct {
	Workdir string // relative is relative to the executor's workspace

	Host     corral.Host     // empty: the executor's
	Node     string          // for host node; empty: the executor's
	Security policy.Security // a request can only be stricter; empty: left to the policy
	Ask      policy.Ask      // a request can only be stricter; empty: left to the policy

	Yield   time.Duration // 0: DefaultYield
	Timeout time.Duration // 0: DefaultTimeout; negative: none
	Grace   time.Duration // between SIGTERM and SIGKILL; 0: corral.DefaultGrace

	PathPrepend []string // directories before PATH
	Log         corral.LogLimit

	NotifyOnExit *bool // nil: true
}

func (d Defaults) yield() time.Duration {
	if d.Yield == 0 {
		return DefaultYield
	}
	return min(max(d.Yield, MinYield), MaxYield)
}

// timeout is the default time-out; 0: none.
func (d Defaults) timeout() time.Duration {
	switch {
	case d.Timeout == 0:
		return DefaultTimeout
	case d.Timeout < 0:
		return 0
	}
	return d.Timeout
}

func (d Defaults) notifyOnExit() bool { return d.NotifyOnExit == nil || *d.NotifyOnExit }

// Tools are exec and process for one agent. Every method may be called from any
// goroutine.
type Tools struct {
	cfg        Config
	inputLimit time.Duration
}

// New returns the tools of an agent.
func New(cfg Config) *Tools {
	if cfg.MaxOutput <= 0 {
		cfg.MaxOutput = DefaultMaxOutput
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Tools{cfg: cfg, inputLimit: inputLimit}
}

// Definitions are the definitions of the tools that the caller may use, with the
// configured defaults.
func (t *Tools) Definitions() []Definition {
	all := definitions(t.cfg.Defaults)
	return slices.DeleteFunc(all, func(d Definition) bool { return t.allowed(d.Name) != nil })
}

func (t *Tools) allowed(name string) error {
	if t.cfg.Allowed == nil {
		return nil
	}
	return t.cfg.Allowed(name)
}
