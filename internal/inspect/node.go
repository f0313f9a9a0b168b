package inspect

import (
	"cmp"
	"errors"
	"io/fs"
	"os"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/fleet/node"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
)

// A NodePolicy is a node's policy for agents that its configuration does not name.
type NodePolicy struct {
	Config string `json:"config,omitempty"` // the file; empty: there is none
	Error  string `json:"error,omitempty"`  // why nothing may run

	Security    policy.Setting[policy.Security] `json:"security"`
	Ask         policy.Setting[policy.Ask]      `json:"ask"`
	Approver    config.Approver                 `json:"approver"` // gateway or local
	Approvals   string                          `json:"approvalsFile"`
	Rules       int                             `json:"rules"` // of the configuration and the file
	Directories []string                        `json:"directories,omitempty"`
	Sandbox     string                          `json:"sandbox"` // off, all or required
}

// NodePolicy is the policy of the node with that report: by the settings of the running
// program, or if none runs, by those that a program started now would get. It is nil if
// the machine is no node.
func (m *Machine) NodePolicy(r node.Report) *NodePolicy {
	if r.Gateway == "" {
		return nil
	}
	mode := ""
	if r.Process != nil {
		mode = r.Process.Sandbox
		if file := r.Process.Config; file != "" {
			m.Config.Path, m.Config.Named = file, true
		}
	}
	p := &NodePolicy{Sandbox: daemon.ModeOff}
	fail := func(err error) *NodePolicy { p.Error = config.FirstLine(err); return p }
	c, err := m.Config.Load()
	if err != nil {
		return fail(err)
	}
	if _, err := os.Stat(c.File); c.File != "" && !errors.Is(err, fs.ErrNotExist) {
		p.Config = c.File
	}
	of := c.Agent(session.DefaultAgent)
	p.Approver, p.Directories = c.Node.Approvals.Value, c.Node.Directories.Value
	s := m.SettingsOf(of)
	p.Sandbox = cmp.Or(mode, s.Mode, daemon.ModeOff)
	if s.Required && p.Sandbox == daemon.ModeOff {
		p.Error = "sandbox.required is true, and the sandbox is off"
	}
	p.Approvals = daemon.ApprovalsPath(c, m.StateDir)
	requested := approval.Settings{Security: of.Tools.Exec.Security, Ask: of.Tools.Exec.Ask, AskFallback: of.Tools.Exec.AskFallback}
	f, err := approval.NewFile(p.Approvals, nil)
	if err != nil {
		return fail(err)
	}
	host, err := f.Rules(session.DefaultAgent)
	err = errors.Join(err, f.Close())
	effective := approval.Effective(requested, host.Settings)
	p.Security, p.Ask = effective.Security, effective.Ask
	p.Rules = len(of.Tools.Exec.Rules) + len(host.Rules)
	if err != nil {
		return fail(err)
	}
	return p
}
