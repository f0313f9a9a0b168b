package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/boundary"
)

// sandboxExplained is what corral sandbox explain says, as JSON.
type sandboxExplained struct {
	Agent    string `json:"agent"`
	Mode     string `json:"mode"` // off, all or required
	Required bool   `json:"required"`
	Scope    string `json:"scope"`
	Name     string `json:"name"` // of the sandbox

	Engine  explainedEngine `json:"engine"`
	Image   string          `json:"image"`
	Runtime string          `json:"runtime,omitempty"` // empty: the engine's
	User    string          `json:"user"`

	Mounts  []explainedMount `json:"mounts"`
	Secrets []string         `json:"secrets"` // names
	Limits  explainedLimits  `json:"limits"`

	Network  string `json:"network"`
	Seccomp  string `json:"seccomp"`  // corral, engine, none, or the file of the profile
	AppArmor string `json:"apparmor"` // engine, or the name of a profile

	Refusals []boundary.Refusal `json:"refusals"`
	Error    string             `json:"error,omitempty"` // why there would be no sandbox
	Hint     string             `json:"hint,omitempty"`
}

type explainedEngine struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	Address string `json:"address,omitempty"`
	Error   string `json:"error,omitempty"` // why it does not answer
	Hint    string `json:"hint,omitempty"`
}

type explainedMount struct {
	Source string `json:"source,omitempty"` // empty: private, or in memory
	Target string `json:"target"`
	Access string `json:"access"` // ro or rw
	Memory bool   `json:"memory,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"` // that it may have
}

// explainedLimits are in bytes, processors, processes and seconds; 0 is unlimited.
type explainedLimits struct {
	Memory    int64   `json:"memory"`
	Swap      int64   `json:"swap"` // 0: none; -1: unlimited
	CPUs      float64 `json:"cpus"`
	Pids      int64   `json:"pids"`
	FileSize  int64   `json:"fileSize"`
	OpenFiles int64   `json:"openFiles"` // 0: as the engine has it
	Output    int64   `json:"outputRate"`
	Lifetime  float64 `json:"lifetime"`
}

func (a *app) sandboxExplain() *cobra.Command {
	var agent string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "explain [flags]", Short: "Say what a sandbox would be like, and what it is refused",
		Long: `Say what an agent's sandbox would be like by the configuration: its engine, what
is mounted, its limits, its network and its profiles; and what of the
configuration is refused, why, and what to do about it. Nothing is made.

Exit code: 0 if commands could run in it; 1 if something is refused or missing.`,
		Args: noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.untilSignal(cmd.Context(), func(ctx context.Context) error {
				e, err := a.explainSandbox(ctx, agent)
				if err != nil {
					return err
				}
				var bad error
				if len(e.Refusals) > 0 || e.Error != "" || e.Engine.Error != "" {
					bad = &exitError{1, ""}
				}
				if asJSON {
					return a.printJSON(e, bad)
				}
				return errors.Join(e.print(a.stdout), bad)
			})
		},
	}
	a.addAgentFlag(cmd, &agent)
	cmd.Flags().Lookup("agent").Usage = "`NAME`: whose sandbox"
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) explainSandbox(ctx context.Context, agent string) (*sandboxExplained, error) {
	c, err := a.config()
	if err != nil {
		return nil, err
	}
	of := c.Agent(agent)
	a.settings = a.settingsOf(of)
	if err := a.settings.complete(); err != nil {
		return nil, err
	}
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	s := a.settings
	e := &sandboxExplained{
		Agent: agent, Mode: s.Mode, Required: s.Required || s.Mode == modeRequired, Scope: string(of.Sandbox.Scope.Value),
		Name: cmp.Or(s.Name, sandboxName(of.Sandbox.Scope.Value, agent, "")), Runtime: s.Runtime,
		Mounts: []explainedMount{}, Secrets: slices.Sorted(maps.Keys(s.Secrets)), Refusals: []boundary.Refusal{},
	}
	if e.Secrets == nil {
		e.Secrets = []string{}
	}
	info := a.askEngine(ctx, &e.Engine)
	cfg := (&sandboxed{}).config(sandboxOptions{settings: s})
	cfg.StateDir, cfg.Name = dir, e.Name
	spec, refusals, err := cfg.Explain(info)
	e.Refusals = append(e.Refusals, refusals...)
	if err != nil {
		e.Error, e.Hint = err.Error(), corral.Hint(err)
	}
	e.describe(s, spec)
	return e, nil
}

// askEngine notes which engine there is, and returns what of it counts: where
// none answers, as if there was one on this machine.
func (a *app) askEngine(ctx context.Context, to *explainedEngine) sandbox.EngineInfo {
	info := sandbox.EngineInfo{Local: true}
	ctx, cancel := context.WithTimeout(ctx, askEngine)
	defer cancel()
	eng, err := a.backends.engine(ctx, a.engineChoice())
	if err == nil {
		var f engineFacts
		f, err = eng.Facts(ctx)
		if err == nil {
			to.Name, to.Version, to.Address = f.Name, f.Version, f.Address
			info = sandbox.EngineInfo{Name: f.Name, Version: f.Version, Address: f.Address, Arch: f.Arch, Local: f.Local, Security: f.Security, Rootless: f.Rootless, CPUs: f.CPUs}
		}
		err = errors.Join(err, eng.Close())
	}
	if err != nil {
		to.Error, to.Hint = err.Error(), corral.Hint(err)
	}
	return info
}

func (e *sandboxExplained) describe(s settings, spec sandbox.Spec) {
	e.Image, e.User = spec.Image, spec.User
	e.Network, e.Seccomp, e.AppArmor = cmp.Or(spec.Network, boundary.NetworkNone), "engine", cmp.Or(spec.AppArmor, "engine")
	switch {
	case spec.Profile == "":
		e.Seccomp = "none" // a kernel of its own
	case spec.Seccomp != nil && s.Seccomp != "" && s.Seccomp != "default" && len(e.Refusals) == 0:
		e.Seccomp = s.Seccomp
	case spec.Seccomp != nil:
		e.Seccomp = "corral"
	}
	for _, m := range spec.Mounts {
		access := "rw"
		if m.ReadOnly {
			access = "ro"
		}
		e.Mounts = append(e.Mounts, explainedMount{Source: m.Source, Target: m.Target, Access: access, Bytes: m.Size})
	}
	for _, t := range spec.Tmpfs {
		e.Mounts = append(e.Mounts, explainedMount{Target: t.Target, Access: "rw", Memory: true, Bytes: t.Size})
	}
	e.Limits = explainedLimits{Memory: spec.Memory, Swap: max(spec.Swap, -1), CPUs: spec.CPUs, Pids: spec.Pids, OpenFiles: spec.NoFiles, Output: max(s.OutputRate, 0), Lifetime: s.Lifetime.Seconds()}
	for _, l := range spec.Rlimits {
		if l.Type == "RLIMIT_FSIZE" {
			e.Limits.FileSize = int64(l.Hard)
		}
	}
}

// print is for people.
func (e *sandboxExplained) print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("agent", "%s", e.Agent)
	switch e.Mode {
	case modeOff:
		line("mode", "off: commands run on the gateway, in no container (sandbox.mode)")
	default:
		line("mode", "%s", e.Mode)
	}
	line("scope", "%s: the sandbox %s", e.Scope, e.Name)
	if e.Engine.Error != "" {
		line("engine", "none: %s", e.Engine.Error)
	} else {
		line("engine", "%s %s at %s", e.Engine.Name, e.Engine.Version, e.Engine.Address)
	}
	if e.Image != "" { // else it could not be told
		e.printBox(line)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range e.Refusals {
		fmt.Fprintf(to, "\nrefused  %s\nrule     %s\nto do    %s\n", r.Error(), r.Rule, r.Fix)
	}
	for _, p := range []struct{ text, hint string }{{e.Error, e.Hint}, {e.Engine.Error, e.Engine.Hint}} {
		if p.text == "" {
			continue
		}
		if _, err := fmt.Fprintf(to, "\nproblem  %s\nto do    %s\n", p.text, cmp.Or(p.hint, "corral doctor says more")); err != nil {
			return err
		}
	}
	return nil
}

func (e *sandboxExplained) printBox(line func(name, format string, args ...any)) {
	line("image", "%s", e.Image)
	if e.Runtime != "" {
		line("runtime", "%s", e.Runtime)
	}
	line("user", "%s", e.User)
	for _, m := range e.Mounts {
		from := cmp.Or(m.Source, "private")
		switch {
		case m.Memory && m.Bytes > 0:
			from = "memory, " + sizeText(m.Bytes)
		case m.Memory:
			from = "memory"
		case m.Bytes > 0:
			from += ", at most " + sizeText(m.Bytes)
		case m.Target == sandbox.SecretsDir:
			from = "memory: " + strings.Join(e.Secrets, ", ")
		}
		line("mount", "%s (%s) from %s", m.Target, m.Access, from)
	}
	l := e.Limits
	swap := "no swap"
	if l.Swap != 0 {
		swap = orUnlimited(l.Swap, sizeText) + " of swap"
	}
	plain := func(n int64) string { return strconv.FormatInt(n, 10) }
	line("memory", "%s, %s", orUnlimited(l.Memory, sizeText), swap)
	line("cpus", "%s", orUnlimited(l.CPUs, func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }))
	line("processes", "%s", orUnlimited(l.Pids, plain))
	line("files", "%s each, %s open in a process", orUnlimited(l.FileSize, sizeText), orUnlimited(l.OpenFiles, plain))
	if l.Output > 0 {
		line("output", "%s a second", sizeText(l.Output))
	}
	if l.Lifetime > 0 {
		line("lifetime", "%v", time.Duration(l.Lifetime*float64(time.Second)))
	}
	line("network", "%s", e.Network)
	line("seccomp", "%s", e.Seccomp)
	line("apparmor", "%s", e.AppArmor)
}

// orUnlimited is a limit for people.
func orUnlimited[T int64 | float64](n T, text func(T) string) string {
	if n <= 0 {
		return "unlimited"
	}
	return text(n)
}

// sizeText is a size as flags take it.
func sizeText(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}} {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
