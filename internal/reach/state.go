package reach

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
)

// StatusLimit bounds the time of a gateway to report its state.
const StatusLimit = 5 * time.Second

// State is the state of a gateway.
type State struct {
	Running  bool                  `json:"running"`
	Ready    bool                  `json:"ready"` // it takes commands
	StateDir string                `json:"stateDir"`
	Error    string                `json:"error,omitempty"` // why it is not ready
	Hint     string                `json:"hint,omitempty"`  // what to do about the error
	Gateway  *daemon.Record        `json:"gateway,omitempty"`
	Sessions map[session.State]int `json:"sessions,omitempty"`
	Agents   int                   `json:"agents"`
	Nodes    *Nodes                `json:"nodes,omitempty"` // nil if it does not listen for any
	// Workspace is the working directory of the agent main's commands without one, by
	// the present configuration; empty: unknown.
	Workspace string `json:"workspace,omitempty"`
	// Damaged are the files with data that a gateway could not read.
	Damaged []string `json:"damaged,omitempty"`
}

// Lone reports whether corral mcp is the gateway, which listens nowhere.
func (s State) Lone() bool { return !s.Running && s.Gateway != nil && s.Gateway.Alone() }

// Sandboxed reports whether commands go to a gateway with the sandbox on.
func (s State) Sandboxed() bool {
	return s.Ready && s.Gateway != nil && s.Gateway.Sandbox != daemon.ModeOff
}

// Ask returns the state of the gateway. A missing gateway is no error.
func (p Place) Ask(ctx context.Context) (State, error) { return p.ask(ctx, StatusLimit) }

func (p Place) ask(ctx context.Context, limit time.Duration) (State, error) {
	s := State{StateDir: p.StateDir}
	o, record, err := p.Find()
	if errors.Is(err, ErrNoGateway) {
		if s.Gateway = daemon.LoneRecord(p.StateDir); s.Gateway != nil {
			s.Error, s.Hint = err.Error(), corral.Hint(err)
		}
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.Gateway, o.Retry = record, -1
	c, err := client.New(o)
	if err != nil {
		return s, err
	}
	defer c.Close()
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	list, err := c.Sessions(ctx, true)
	s.Running = err == nil || !errors.Is(err, corral.ErrUnavailable) && ctx.Err() == nil
	if err == nil {
		s.count(list)
		err = c.Ready(ctx)
	}
	if err == nil {
		s.Workspace = workspace(ctx, c, record)
	}
	if err == nil && (record == nil || len(record.Nodes) > 0) {
		s.Nodes, err = countNodes(ctx, c)
	}
	switch {
	case caller.Err() != nil:
		return s, context.Cause(caller)
	case errors.Is(err, context.DeadlineExceeded):
		err = corral.Errorf(corral.ErrUnavailable, "check the address and the network, and look at the gateway's log", "no answer within %v", limit)
	}
	if s.Ready = err == nil; err != nil {
		s.Error, s.Hint = err.Error(), corral.Hint(err)
	}
	if errors.Is(err, corral.ErrDenied) {
		s.Gateway = nil // the token belongs to another gateway, and so does the record beside it
	}
	return s, nil
}

func (s *State) count(list []session.Status) {
	s.Sessions = map[session.State]int{}
	agents := map[string]bool{}
	for _, st := range list {
		s.Sessions[st.State]++
		agents[st.Agent] = true
	}
	s.Agents = len(agents)
}

// workspace asks the gateway for the directory of a command.
func workspace(ctx context.Context, c *client.Client, record *daemon.Record) string {
	r, err := c.Explain(ctx, corral.Command{Shell: ":"}, client.ExplainOptions{})
	switch {
	case err != nil || r.Route.Host == corral.HostNode:
		return ""
	case !r.Route.Sandboxed:
		return r.Cwd
	case record != nil && record.Workspace != "":
		return record.Workspace
	}
	return "a private one for each sandbox"
}

// Nodes counts the nodes of a gateway.
type Nodes struct {
	Listen  []string `json:"listen"` // where they connect to
	Online  int      `json:"online"`
	Offline int      `json:"offline"`
	Pending int      `json:"pending"`       // machines that ask to be nodes
	SSH     int      `json:"ssh,omitempty"` // hosts reached by SSH
	Away    []string `json:"-"`             // names of the offline ones

	Problems []string `json:"problems,omitempty"` // of those that are online, with their names
}

// countNodes counts the nodes of a gateway; nil if it does not listen for any.
func countNodes(ctx context.Context, c *client.Client) (*Nodes, error) {
	got, err := c.Nodes(ctx)
	if errors.Is(err, corral.ErrNotFound) || err == nil && len(got.Listen) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n := &Nodes{Listen: got.Listen, Pending: got.Pending}
	for _, node := range got.Nodes {
		switch {
		case node.Kind == client.NodeSSH:
			n.SSH++
		case node.State == client.NodeOnline:
			n.Online++
			if node.Problem != "" {
				n.Problems = append(n.Problems, approval.Visible(node.Name+": "+node.Problem))
			}
		case node.State == client.NodeOffline:
			n.Offline++
			n.Away = append(n.Away, approval.Visible(node.Name))
		}
	}
	return n, nil
}

// String is as in "2 online, 1 offline, 1 asks to be one".
func (n Nodes) String() string {
	var words []string
	add := func(count int, format string) {
		if count > 0 {
			words = append(words, fmt.Sprintf(format, count))
		}
	}
	add(n.Online, "%d online")
	add(n.Offline, "%d offline")
	add(n.SSH, "%d by SSH")
	if len(words) == 0 {
		words = []string{"none"}
	}
	if n.Pending == 1 {
		words = append(words, "1 asks to be one")
	} else {
		add(n.Pending, "%d ask to be nodes")
	}
	return strings.Join(words, ", ")
}
