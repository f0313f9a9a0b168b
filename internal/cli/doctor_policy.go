package cli

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/session"
)

// checkPolicy looks at what the policy of a gateway is made of, with the files
// that are used from here.
func (a *app) checkPolicy() []doctor.Finding {
	c, f := a.checkConfig()
	if c == nil {
		return []doctor.Finding{f}
	}
	dir, err := a.stateDir()
	if err != nil {
		return []doctor.Finding{f} // which is said elsewhere
	}
	file, host := doctor.Approvals(daemon.ApprovalsPath(c, dir))
	agent := c.Agent(session.DefaultAgent)
	return []doctor.Finding{f, file, doctor.Effective(agent, host), doctor.Enforce(agent), doctor.SafeBins(agent.Tools.Exec.SafeBinDirs.Value)}
}

// checkConfig reads the configuration; nil if it cannot be used.
func (a *app) checkConfig() (*config.Config, doctor.Finding) {
	const name = "config"
	c, err := a.config()
	if err != nil {
		f := doctor.Failed(name, err, doctor.ClosedMeaning)
		var bad *config.Error
		if errors.As(err, &bad) {
			f.Summary = config.FirstLine(err)
			f.Fix = "correct it; corral config validate lists every mistake"
		}
		return nil, f
	}
	if c.File == "" {
		return c, doctor.Fine(name, "there is no place for a configuration, and the defaults apply")
	}
	if _, err := os.Stat(c.File); errors.Is(err, fs.ErrNotExist) {
		return c, doctor.Fine(name, "there is no %s, and the defaults apply; corral init makes one", c.File)
	}
	f := doctor.Fine(name, "%s can be used", c.File)
	if useless := doctor.UselessRules(c); len(useless) > 0 {
		f.Status, f.Meaning, f.Fix = doctor.Warn, strings.Join(useless, " "), "correct "+c.File
	}
	return c, f
}
