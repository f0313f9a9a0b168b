package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
)

const ClosedMeaning = "Nothing may run on the gateway or a node until it is mended."

// Approvals reads the host's approvals file.
func Approvals(path string) (Finding, approval.Host) {
	const name = "approvals"
	file, err := approval.NewFile(path, slog.New(slog.DiscardHandler))
	if err != nil {
		return Failed(name, err, ClosedMeaning), approval.Host{}
	}
	host, err := file.Rules(session.DefaultAgent)
	err = errors.Join(err, file.Close())
	if err != nil {
		f := Failed(name, err, ClosedMeaning)
		f.Fix = cmp.Or(f.Fix, "correct "+path)
		return f, host
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Fine(name, "there is no %s yet: nothing was allowed for good", path), host
	case err != nil:
		return Failed(name, err, ClosedMeaning), host
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return Finding{Name: name, Status: Warn, Summary: fmt.Sprintf("%s is %v", path, info.Mode().Perm()),
			Meaning: "Others can see what may run here, or change it.", Fix: "chmod 600 " + words.Quote(path)}, host
	}
	f := Fine(name, "%s, %d rules for the agent %s", path, len(host.Rules), session.DefaultAgent)
	if len(host.Warnings) > 0 {
		f.Status, f.Meaning, f.Fix = Warn, strings.Join(host.Warnings, " "), "correct "+path
	}
	return f, host
}

// Effective says which policy applies to an agent; most calls are of the agent main.
func Effective(agent config.Agent, host approval.Host) Finding {
	const name = "policy"
	exec := agent.Tools.Exec
	e := approval.Effective(approval.Settings{Security: exec.Security, Ask: exec.Ask, AskFallback: exec.AskFallback}, host.Settings)
	f := Fine(name, "agent %s: security %s (%s), ask %s (%s), askFallback %s (%s)", agent.ID,
		e.Security.Value, e.Security.Source, e.Ask.Value, e.Ask.Source, e.AskFallback.Value, e.AskFallback.Source)
	switch {
	case e.Security.Value == "full" && e.Ask.Value == "off":
		f.Status = Warn
		f.Meaning, f.Fix = "Every command runs on the gateway and on nodes, and nobody is asked.", "corral config set tools.exec.security allowlist"
	case e.AskFallback.Value == "full":
		f.Status = Warn
		f.Meaning, f.Fix = "What needs an approval runs without one if nobody answers.", "corral config set tools.exec.askFallback deny"
	}
	return f
}

// Enforce says whether the kernel can enforce the policy's decisions on commands.
func Enforce(agent config.Agent) Finding {
	const name = "enforcement"
	set := agent.Tools.Exec.Enforce
	able, err := hostexec.Enforcement()
	switch {
	case set.Value == policy.EnforceOff:
		return Fine(name, "off (%s): what commands execute and write is decided before they start, and not enforced", set.Source)
	case err != nil && set.Value == policy.EnforceRequire:
		return Finding{Name: name, Status: Fail, Summary: err.Error(),
			Meaning: "Commands that security allowlist allows do not start here: tools.exec.enforce is require.", Fix: "corral config set tools.exec.enforce try"}
	case err != nil:
		return Finding{Name: name, Status: Warn, Summary: err.Error(),
			Meaning: "What commands execute and write is decided before they start, and not enforced by the kernel."}
	}
	return Fine(name, "%s (%s): %s", set.Value, set.Source, able)
}

// SafeBins says which directories of safe bins can have programs of other users.
func SafeBins(dirs []string) Finding {
	const name = "safe-bins"
	var open []string
	for _, dir := range append([]string{"/bin", "/usr/bin"}, dirs...) {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			open = append(open, fmt.Sprintf("%s cannot be looked at: %v", dir, err))
		case runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0:
			open = append(open, fmt.Sprintf("%s is %v", dir, info.Mode().Perm()))
		}
	}
	if len(open) == 0 {
		return Fine(name, "the directories of safe bins are changed by their owners alone")
	}
	return Finding{Name: name, Status: Warn, Summary: strings.Join(open, "; "),
		Meaning: "Others can put a program there that runs without a rule, as a safe bin.", Fix: "chmod go-w, or take it out of tools.exec.safeBinDirs"}
}

// UselessRules says, in sentences, which allow rules can never allow anything.
func UselessRules(c *config.Config) []string {
	var said []string
	for _, id := range append(c.Agents(), session.DefaultAgent) {
		for _, rule := range c.Agent(id).Tools.Exec.Rules {
			text := fmt.Sprintf("The rule {allow: %q} (%s) allows nothing: a name without a path is never allowed; write the path of the program.", rule.Pattern, rule.Source)
			if approval.Pathless(rule) && !slices.Contains(said, text) {
				said = append(said, text)
			}
		}
	}
	return said
}
