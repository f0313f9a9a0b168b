package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/fleet/node"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
)

// nodePolicy is by what a node decides on the commands of agents of which its
// configuration says nothing else.
type nodePolicy struct {
	Config string `json:"config,omitempty"` // the file; empty: there is none
	Error  string `json:"error,omitempty"`  // why nothing may run

	Security    policy.Setting[policy.Security] `json:"security"`
	Ask         policy.Setting[policy.Ask]      `json:"ask"`
	Approver    config.Approver                 `json:"approver"` // who approves
	Approvals   string                          `json:"approvalsFile"`
	Rules       int                             `json:"rules"` // of the configuration and the file
	Directories []string                        `json:"directories,omitempty"`
	Sandbox     string                          `json:"sandbox"` // off, all or required
}

// nodeSetup is what a node program says of itself for others to see.
func (a *app) nodeSetup() node.Setup {
	var s node.Setup
	if file, err := a.configFile(); err == nil && file.Named {
		s.Config = file.Path
	} else if _, err := os.Stat(file.Path); err == nil {
		s.Config = file.Path // which has to stay
	}
	if a.given("sandbox") {
		s.Sandbox = a.settings.Mode
	}
	return s
}

// nodePolicy is that of the node of a state directory: by what the program that
// runs was told, or else by what one would be that is started so.
func (a *app) nodePolicy(r node.Report, dir string) *nodePolicy {
	if r.Gateway == "" {
		return nil
	}
	mode := ""
	if r.Process != nil {
		a.configFlag, mode = cmp.Or(r.Process.Config, a.configFlag), r.Process.Sandbox
	}
	p := &nodePolicy{Sandbox: daemon.ModeOff}
	fail := func(err error) *nodePolicy { p.Error = config.FirstLine(err); return p }
	c, err := a.config()
	if err != nil {
		return fail(err)
	}
	if _, err := os.Stat(c.File); c.File != "" && !errors.Is(err, fs.ErrNotExist) {
		p.Config = c.File
	}
	of := c.Agent(session.DefaultAgent)
	p.Approver, p.Directories = c.Node.Approvals.Value, c.Node.Directories.Value
	s := a.settingsOf(of)
	p.Sandbox = cmp.Or(mode, s.Mode, daemon.ModeOff)
	if s.Required && p.Sandbox == daemon.ModeOff {
		p.Error = "sandbox.required is true, and the sandbox is off"
	}
	p.Approvals = daemon.ApprovalsPath(c, filepath.Dir(dir))
	requested := approval.Settings{Security: of.Tools.Exec.Security, Ask: of.Tools.Exec.Ask, AskFallback: of.Tools.Exec.AskFallback}
	f, err := approval.NewFile(p.Approvals, nil)
	if err != nil {
		return fail(err)
	}
	host, err := f.Rules(session.DefaultAgent)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	effective := approval.Effective(requested, host.Settings)
	p.Security, p.Ask = effective.Security, effective.Ask
	p.Rules = len(of.Tools.Exec.Rules) + len(host.Rules)
	if err != nil {
		return fail(err)
	}
	return p
}

// print writes the rows of the policy.
func (p *nodePolicy) print(w io.Writer) {
	if p == nil {
		return
	}
	if p.Error != "" {
		fmt.Fprintf(w, "policy\tnothing may run: %s\n", visible(p.Error))
	}
	if p.Security.Value != "" {
		fmt.Fprintf(w, "security\t%s  (%s)\nask\t%s  (%s)\n", p.Security.Value, sourceText(p.Security.Source), p.Ask.Value, sourceText(p.Ask.Source))
		by := "asked for at the gateway"
		if p.Approver == config.ApproverLocal {
			by = "asked for here (corral node approvals)"
		}
		fmt.Fprintf(w, "approvals\t%s; remembered in %s\nrules\t%d\n", by, p.Approvals, p.Rules)
		fmt.Fprintf(w, "directories\t%s\n", cmp.Or(strings.Join(p.Directories, ", "), "any"))
	}
	sandbox := map[string]string{
		daemon.ModeOff: "off", daemon.ModeAll: "all: commands run in a container of their agent's, where none of that is asked",
		daemon.ModeRequired: "required: commands run in a container of their agent's, where none of that is asked, and none leaves it",
	}[p.Sandbox]
	fmt.Fprintf(w, "sandbox\t%s\nconfig\t%s\n", sandbox, cmp.Or(p.Config, "none"))
}
