package tool

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy"
)

// A plan is an ExecRequest that has been checked, with defaults filled in.
type plan struct {
	command    corral.Command
	background bool
	notify     bool
	wait       time.Duration // in the foreground; negative: until the end
	warnings   []string
}

// plan checks a request and fills in the defaults.
func (t *Tools) plan(req ExecRequest) (plan, error) {
	d := t.cfg.Defaults
	if strings.TrimSpace(req.Command) == "" {
		return plan{}, corral.Errorf(corral.ErrInvalid, "", "Provide a command to start.")
	}
	host, err := choice("host", req.Host, corral.HostSandbox, corral.HostGateway, corral.HostNode)
	if err != nil {
		return plan{}, err
	}
	security, err := choice("security", req.Security, policy.Securities...)
	if err != nil {
		return plan{}, err
	}
	ask, err := choice("ask", req.Ask, policy.Asks...)
	if err != nil {
		return plan{}, err
	}
	timeout, err := req.timeout(d)
	if err != nil {
		return plan{}, err
	}
	p := plan{
		background: req.Background,
		notify:     d.notifyOnExit(),
		wait:       d.yield(),
		command: corral.Command{
			ID: req.SessionID, Shell: req.Command, Dir: req.Workdir, Env: req.Env,
			PathPrepend: d.PathPrepend, Timeout: timeout, Grace: d.Grace, Log: d.Log,
			Host: host, Node: strings.TrimSpace(req.Node), Elevated: req.Elevated,
			Security: string(policy.Stricter(policy.Securities, security, d.Security)),
			Ask:      string(policy.Stricter(policy.Asks, ask, d.Ask)),
		},
	}
	if req.NotifyOnExit != nil {
		p.notify = *req.NotifyOnExit
	}
	if req.YieldMs != nil {
		p.wait = min(max(time.Duration(*req.YieldMs)*time.Millisecond, MinYield), MaxYield)
	}
	if t.allowed(ProcessName) != nil {
		if req.Background || req.YieldMs != nil {
			p.warnings = append(p.warnings, "Background execution is disabled; running synchronously.")
		}
		p.background, p.wait = false, -1
	}
	c := &p.command
	c.Dir = cmp.Or(c.Dir, d.Workdir)
	c.Host = cmp.Or(c.Host, d.Host)
	if c.Node == "" && c.Host == corral.HostNode {
		c.Node = d.Node
	}
	if req.PTY {
		c.TTY = &corral.Size{}
	}
	// Standard input stays open for a command that the agent may write to. For one in
	// the foreground it is closed at once: many programs, such as rg, read standard
	// input if it is not a terminal, and would wait for ever.
	c.Stdin = req.PTY || p.background
	return p, c.Validate()
}

// timeout is how long the command may run; 0: no limit.
func (req ExecRequest) timeout(d Defaults) (time.Duration, error) {
	name, seconds := "timeout", req.Timeout
	switch {
	case seconds == nil:
		name, seconds = "timeoutSeconds", req.TimeoutSeconds
	case req.TimeoutSeconds != nil && *req.TimeoutSeconds != *seconds:
		return 0, corral.Errorf(corral.ErrInvalid, "give one of them", "timeout is %v and timeoutSeconds is %v", *seconds, *req.TimeoutSeconds)
	}
	switch {
	case seconds == nil:
		return d.timeout(), nil
	case math.IsNaN(*seconds) || *seconds > MaxTimeout.Seconds():
		return 0, corral.Errorf(corral.ErrInvalid, fmt.Sprintf("give at most %.0f seconds, or 0 for none", MaxTimeout.Seconds()), "%s: %v is no time-out", name, *seconds)
	case *seconds < 0:
		return 0, corral.Errorf(corral.ErrInvalid, "0 means no time-out", "%s: %v is negative", name, *seconds)
	case *seconds == 0:
		return 0, nil
	}
	// Rounded up, so that a very short time-out does not become 0, which is none.
	return time.Duration(math.Ceil(*seconds*1e3)) * time.Millisecond, nil
}

// choice checks a value of a closed set. It ignores case and spaces, since models add
// them.
func choice[T ~string](name string, given T, set ...T) (T, error) {
	value := T(strings.ToLower(strings.TrimSpace(string(given))))
	if value == "" || slices.Contains(set, value) {
		return value, nil
	}
	return "", corral.Errorf(corral.ErrInvalid, "use "+words.List(set), "%s: there is no %q", name, cut(string(given)))
}
