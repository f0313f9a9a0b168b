// Package inspect makes the reports of corral doctor and corral sandbox explain: problems
// of this machine, its engine, its gateway and its files, the properties that a sandbox
// would have, and whether commands can get out of one. It changes nothing, except that it
// makes a sandbox of its own for the tries to get out.
package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/escape"
	"github.com/corral-exec/corral/internal/reach"
	"github.com/corral-exec/corral/internal/warden/wardenbin"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/session"
)

// A Machine is this machine, with an engine and a gateway, to be inspected.
type Machine struct {
	daemon.Options
	reach.Place
	Engines  func(context.Context) []doctor.EngineTried // asks the engines; nil: none is asked
	Progress daemon.Progress                            // shows the pull of an image
}

// Checks makes every check. With deep it also tries to get out of a sandbox.
func (m *Machine) Checks(ctx context.Context, deep bool) (checks []doctor.Finding, escapes []escape.Result) {
	state, ofGateway := m.gateway(ctx)
	mode := m.Settings.Mode
	c, ofConfig := m.config()
	if c != nil {
		m.Settings = m.SettingsOf(c.Agent(session.DefaultAgent))
	}
	if !state.Ready { // a running gateway watches the configuration itself
		mode = m.Settings.Mode
	}
	if m.Engines != nil {
		checks = append(checks, doctor.Engines(m.EngineChoice(), m.Engines(ctx)))
	}
	of, escapes, err := m.engine(ctx, state, deep)
	checks = append(checks, of...)
	if err != nil {
		const meaning = "No sandbox can be made. Commands can run on the gateway only."
		checks = append(checks, doctor.Failed("engine", err, meaning), doctor.Warden(runtime.GOARCH, wardenbin.Bytes))
	}
	checks = append(checks, doctor.StateDir(m.StateDir), doctor.Damaged(m.StateDir), ofGateway)
	if state.Nodes != nil {
		checks = append(checks, nodes(*state.Nodes))
	}
	checks = append(checks, m.loginPath(ctx), m.environment(), ofConfig)
	if c != nil {
		checks = append(checks, m.policy(c)...)
	}
	return append(checks, sandboxOf(state, mode, m.Settings.Required)), escapes
}

// engine makes the checks that need the engine to answer.
func (m *Machine) engine(ctx context.Context, state reach.State, deep bool) (checks []doctor.Finding, escapes []escape.Result, err error) {
	eng, err := m.Backends.Engine(ctx, m.EngineChoice())
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = cmp.Or(err, eng.Close()) }()
	facts, err := eng.Facts(ctx)
	if err != nil {
		return nil, nil, err
	}
	checks = []doctor.Finding{doctor.Engine(facts), doctor.Socket(facts.Address, os.Geteuid(), doctor.SocketMode), doctor.Runc(facts)}
	if facts.Rootless {
		checks = append(checks, doctor.Fine("rootless", "the engine runs without root"))
	}
	cfg := daemon.SandboxConfig(daemon.SandboxOptions{Settings: m.Settings})
	cfg.StateDir, cfg.Name = m.StateDir, ""
	checks = append(checks,
		doctor.Runtimes(facts, m.Settings.Runtime),
		doctor.Cgroup(facts),
		doctor.Users(cfg, facts),
		doctor.Seccomp(facts),
		doctor.Privileges(facts),
		doctor.Warden(facts.Arch, wardenbin.Bytes),
		doctor.Image(ctx, m.image(state), eng.Images()))
	if deep {
		var f doctor.Finding
		f, escapes = m.escapes(ctx, facts.Arch, facts.Local)
		checks = append(checks, f)
	}
	return checks, escapes, nil
}

// image is the image of sandboxes: the one that a flag names, that of the gateway, or the
// configured one.
func (m *Machine) image(s reach.State) string {
	ref := m.Settings.Image
	if !m.Given("image") && s.Sandboxed() {
		ref = s.Gateway.Image
	}
	return cmp.Or(ref, images.Default)
}

// environment lists the variables that commands on the gateway do not get.
func (m *Machine) environment() doctor.Finding {
	const name = "environment"
	env, err := pathenv.Gateway(pathenv.GatewayOptions{Inherited: m.Environ})
	if err != nil {
		return doctor.Failed(name, err, "Commands cannot run on the gateway.")
	}
	f := doctor.Fine(name, "commands on the gateway get this environment, without %d of its variables", len(env.Dropped))
	f.Meaning = strings.Join(env.Warnings(), " ")
	return f
}

func (m *Machine) loginPath(ctx context.Context) doctor.Finding {
	probe := pathenv.NewLoginProbe(pathenv.ProbeOptions{Environ: m.Environ, Home: daemon.AccountHome()})
	defer probe.Close()
	began := time.Now()
	path, err := probe.PATH(ctx)
	return doctor.LoginPath(path, time.Since(began), err)
}

// config reads the configuration; nil if it cannot be used.
func (m *Machine) config() (*config.Config, doctor.Finding) {
	const name = "config"
	c, err := m.Config.Load()
	if err != nil {
		f := doctor.Failed(name, err, doctor.ClosedMeaning)
		if _, bad := errors.AsType[*config.Error](err); bad {
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

// policy checks the files and settings of a gateway's policy.
func (m *Machine) policy(c *config.Config) []doctor.Finding {
	file, host := doctor.Approvals(daemon.ApprovalsPath(c, m.StateDir))
	agent := c.Agent(session.DefaultAgent)
	return []doctor.Finding{file, doctor.Effective(agent, host), doctor.Enforce(agent), doctor.SafeBins(agent.Tools.Exec.SafeBinDirs.Value)}
}

// gateway reports whether a gateway runs, answers, and can use its engine. That engine may
// be another one than this program's.
func (m *Machine) gateway(ctx context.Context) (reach.State, doctor.Finding) {
	const name = "gateway"
	state, err := m.Ask(ctx)
	if err != nil {
		return state, doctor.Failed(name, err, "Corral's commands cannot use the gateway.")
	}
	f := gatewayFinding(state, m.Version)
	if !state.Sandboxed() {
		return state, f
	}
	if err := m.gatewayEngine(ctx); err != nil {
		return state, doctor.Failed(name, err, "The gateway runs with the sandbox on, and its engine cannot be used: what is meant for a sandbox fails.")
	}
	if began, now := state.Gateway.Engine, m.EngineChoice(); f.Status == doctor.OK && began != "" && began != now {
		f.Status, f.Summary = doctor.Warn, fmt.Sprintf("%s; its engine is %s, and the configuration says %s by now", f.Summary, began, now)
		f.Meaning, f.Fix = "Its sandboxes stay with the engine that was configured when it was started.", daemon.EngineRestart
	}
	return state, f
}

// gatewayEngine makes the gateway ask its engine.
func (m *Machine) gatewayEngine(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reach.StatusLimit)
	defer cancel()
	o, _, err := m.Find()
	if err != nil {
		return err
	}
	o.Retry = reach.AwayLimit
	c, err := client.New(o)
	if err != nil {
		return err
	}
	_, err = c.Sandboxes(ctx)
	return errors.Join(err, c.Close())
}
