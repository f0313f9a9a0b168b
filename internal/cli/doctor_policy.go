package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
)

const closedMeaning = "Nothing may run on the gateway or a node until it is mended."

// checkPolicy looks at what the policy of a gateway is made of, with the files
// that are used from here.
func (a *app) checkPolicy() []finding {
	c, f := a.checkConfig()
	if c == nil {
		return []finding{f}
	}
	dir, err := a.stateDir()
	if err != nil {
		return []finding{f} // which is said elsewhere
	}
	file, host := checkApprovals(daemon.ApprovalsPath(c, dir))
	agent := c.Agent(session.DefaultAgent)
	return []finding{f, file, checkEffective(agent, host), checkEnforce(agent), checkSafeBins(agent.Tools.Exec.SafeBinDirs.Value)}
}

// checkConfig reads the configuration; nil if it cannot be used.
func (a *app) checkConfig() (*config.Config, finding) {
	const name = "config"
	c, err := a.config()
	if err != nil {
		f := failed(name, err, closedMeaning)
		var bad *config.Error
		if errors.As(err, &bad) {
			f.Summary = config.FirstLine(err)
			f.Fix = "correct it; corral config validate lists every mistake"
		}
		return nil, f
	}
	if c.File == "" {
		return c, ok(name, "there is no place for a configuration, and the defaults apply")
	}
	if _, err := os.Stat(c.File); errors.Is(err, fs.ErrNotExist) {
		return c, ok(name, "there is no %s, and the defaults apply; corral init makes one", c.File)
	}
	f := ok(name, "%s can be used", c.File)
	if useless := uselessRules(c); len(useless) > 0 {
		f.Status, f.Meaning, f.Fix = levelWarn, strings.Join(useless, " "), "correct "+c.File
	}
	return c, f
}

// checkApprovals reads the host's approvals file.
func checkApprovals(path string) (finding, approval.Host) {
	const name = "approvals"
	file, err := approval.NewFile(path, slog.New(slog.DiscardHandler))
	if err != nil {
		return failed(name, err, closedMeaning), approval.Host{}
	}
	host, err := file.Rules(session.DefaultAgent)
	err = errors.Join(err, file.Close())
	if err != nil {
		f := failed(name, err, closedMeaning)
		if f.Fix == "" {
			f.Fix = "correct " + path
		}
		return f, host
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ok(name, "there is no %s yet: nothing was allowed for good", path), host
	case err != nil:
		return failed(name, err, closedMeaning), host
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return finding{Name: name, Status: levelWarn, Summary: fmt.Sprintf("%s is %v", path, info.Mode().Perm()),
			Meaning: "Others can see what may run here, or change it.", Fix: "chmod 600 " + words.Quote(path)}, host
	}
	f := ok(name, "%s, %d rules for the agent %s", path, len(host.Rules), session.DefaultAgent)
	if len(host.Warnings) > 0 {
		f.Status, f.Meaning, f.Fix = levelWarn, strings.Join(host.Warnings, " "), "correct "+path
	}
	return f, host
}

// checkEffective says what applies to the agent that most calls are of.
func checkEffective(agent config.Agent, host approval.Host) finding {
	const name = "policy"
	exec := agent.Tools.Exec
	e := approval.Effective(approval.Settings{Security: exec.Security, Ask: exec.Ask, AskFallback: exec.AskFallback}, host.Settings)
	f := ok(name, "agent %s: security %s (%s), ask %s (%s), askFallback %s (%s)", agent.ID,
		e.Security.Value, e.Security.Source, e.Ask.Value, e.Ask.Source, e.AskFallback.Value, e.AskFallback.Source)
	switch {
	case e.Security.Value == "full" && e.Ask.Value == "off":
		f.Status = levelWarn
		f.Meaning, f.Fix = "Every command runs on the gateway and on nodes, and nobody is asked.", "corral config set tools.exec.security allowlist"
	case e.AskFallback.Value == "full":
		f.Status = levelWarn
		f.Meaning, f.Fix = "What needs an approval runs without one if nobody answers.", "corral config set tools.exec.askFallback deny"
	}
	return f
}

// checkEnforce says whether the kernel can keep commands to what was decided.
func checkEnforce(agent config.Agent) finding {
	const name = "enforcement"
	set := agent.Tools.Exec.Enforce
	able, err := hostexec.Enforcement()
	switch {
	case set.Value == policy.EnforceOff:
		return ok(name, "off (%s): what commands execute and write is decided before they start, and not enforced", set.Source)
	case err != nil && set.Value == policy.EnforceRequire:
		return finding{Name: name, Status: levelFail, Summary: err.Error(),
			Meaning: "Commands that security allowlist allows do not start here: tools.exec.enforce is require.", Fix: "corral config set tools.exec.enforce try"}
	case err != nil:
		return finding{Name: name, Status: levelWarn, Summary: err.Error(),
			Meaning: "What commands execute and write is decided before they start, and not enforced by the kernel."}
	}
	return ok(name, "%s (%s): %s", set.Value, set.Source, able)
}

// checkSafeBins says which directories of safe bins are not for the system's own
// programs alone.
func checkSafeBins(dirs []string) finding {
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
		return ok(name, "the directories of safe bins are changed by their owners alone")
	}
	return finding{Name: name, Status: levelWarn, Summary: strings.Join(open, "; "),
		Meaning: "Others can put a program there that runs without a rule, as a safe bin.", Fix: "chmod go-w, or take it out of tools.exec.safeBinDirs"}
}
