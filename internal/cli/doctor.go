package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/escape"
	"github.com/corral-exec/corral/internal/terminal"
	"github.com/corral-exec/corral/internal/warden/wardenbin"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/session"
)

// A diagnosis is all that corral doctor says.
type diagnosis struct {
	Status doctor.Severity  `json:"status"` // the worst
	Checks []doctor.Finding `json:"checks"`

	// Escapes are the tries of --deep, one by one.
	Escapes []escape.Result `json:"escapes,omitempty"`
}

func newDiagnosis(checks []doctor.Finding) diagnosis {
	d := diagnosis{Status: doctor.OK, Checks: checks}
	for i, c := range checks {
		checks[i].Summary, checks[i].Fix = inFlags(c.Summary), inFlags(c.Fix)
		switch {
		case c.Status == doctor.Fail:
			d.Status = doctor.Fail
		case c.Status == doctor.Warn && d.Status == doctor.OK:
			d.Status = doctor.Warn
		}
	}
	return d
}

func (a *app) doctorCommand() *cobra.Command {
	var asJSON, deep bool
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Check what Corral needs, and say how to get it",
		Long: `Check what Corral needs on this machine and of the container engine, and say what
each finding means and what to do about it. Nothing is changed.

Exit code: 0, also with warnings; 1 if something does not work. Without an engine
commands can still run on the gateway; doctor calls its lack a failure because
there is no sandbox then.

With --deep it also makes a sandbox, tries to get out of it in all the ways that
docs/reference/escape.md lists, and removes it; that takes some seconds. No try
does any harm where it succeeds. The program corral-escape makes the tries; it is
looked for where corral is, and on PATH.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, escapes := a.diagnose(cmd.Context(), deep)
			d := newDiagnosis(checks)
			d.Escapes = escapes
			var err error
			if d.Status == doctor.Fail {
				err = &exitError{exitFindings, ""}
			}
			if asJSON {
				return a.printJSON(d, err)
			}
			if werr := a.printDiagnosis(d); werr != nil {
				return werr
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&deep, "deep", false, "make a sandbox and try to get out of it")
	a.addSandboxFlags(cmd)
	for _, name := range []string{"driver", "workspace", "workspace-access", "user", "memory", "cpus", "pids", "name", "ephemeral"} {
		must(cmd.Flags().MarkHidden(name))
	}
	return cmd
}

// levelStyle is how a doctor.Severity looks on a terminal.
var levelStyle = map[doctor.Severity]style{doctor.OK: green, doctor.Warn: yellow, doctor.Fail: red}

func (a *app) printDiagnosis(d diagnosis) error {
	var b strings.Builder
	look := a.look()
	counts := make(map[doctor.Severity]int)
	for _, c := range d.Checks {
		counts[c.Status]++
		texts := []string{c.Summary}
		if c.Meaning != "" && (c.Status != doctor.OK || !a.quiet) {
			texts = append(texts, c.Meaning)
		}
		if c.Fix != "" {
			texts = append(texts, "fix: "+c.Fix)
		}
		left := fmt.Sprintf("%-4s  %-10s  ", c.Status, c.Name)
		indent := strings.Repeat(" ", len(left))
		left = strings.Replace(left, string(c.Status), look.in(levelStyle[c.Status], string(c.Status)), 1)
		for i, text := range texts {
			for _, line := range a.lines(text, len(indent)) {
				if i > 0 {
					line = look.in(dim, line)
				}
				b.WriteString(left + line + "\n")
				left = indent
			}
		}
	}
	fmt.Fprintf(&b, "\n%d ok, %d to know about, %d to fix\n", counts[doctor.OK], counts[doctor.Warn], counts[doctor.Fail])
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

// lines is text as it fits beside indent columns of a terminal. What goes
// elsewhere, such as to grep, is not broken.
func (a *app) lines(text string, indent int) []string {
	if f, ok := terminal.Shows(a.stdout); ok {
		return wrap(text, width(f)-indent)
	}
	return []string{text}
}

// diagnose makes every check, with deep also those in a sandbox. Those of the
// engine need it to answer.
func (a *app) diagnose(ctx context.Context, deep bool) (_ []doctor.Finding, escapes []escape.Result) {
	const withoutEngine = "No sandbox can be made. Commands can run on the gateway only."
	state, gateway := a.checkGatewayState(ctx)
	mode := a.settings.Mode
	if c, err := a.config(); err == nil { // else checkPolicy says what is wrong with it
		a.settings = a.settingsOf(c.Agent(session.DefaultAgent))
	}
	if !state.Ready { // a gateway that runs follows the configuration by itself
		mode = a.settings.Mode
	}
	var checks []doctor.Finding
	if a.engines != nil {
		checks = append(checks, doctor.Engines(a.engineChoice(), a.engines(ctx)))
	}
	err := a.withEngine(ctx, func(ctx context.Context, eng daemon.Engine) error {
		facts, err := eng.Facts(ctx)
		if err != nil {
			return err
		}
		checks = append(checks, doctor.Engine(facts), doctor.Socket(facts.Address, os.Geteuid(), doctor.SocketMode))
		if !facts.Rootless {
			checks = append(checks, doctor.Runc(facts))
		} else {
			checks = append(checks, doctor.Runc(facts), doctor.Fine("rootless", "the engine runs without root"))
		}
		checks = append(checks,
			doctor.Runtimes(facts, a.settings.Runtime),
			doctor.Cgroup(facts),
			a.checkUsers(facts),
			doctor.Seccomp(facts),
			doctor.Privileges(facts),
			doctor.Warden(facts.Arch, wardenbin.Bytes),
			a.checkImage(ctx, state, eng.Images()))
		if deep {
			var f doctor.Finding
			f, escapes = a.checkEscape(ctx, facts.Arch, facts.Local)
			checks = append(checks, f)
		}
		return nil
	})
	if err != nil {
		checks = append(checks, doctor.Failed("engine", err, withoutEngine), doctor.Warden(runtime.GOARCH, wardenbin.Bytes))
	}
	checks = append(checks, a.checkStateDir()...)
	checks = append(checks, gateway)
	if state.Nodes != nil {
		checks = append(checks, checkNodes(*state.Nodes))
	}
	checks = append(checks, a.checkLoginPath(ctx), a.checkEnvironment())
	return append(append(checks, a.checkPolicy()...), checkSandboxOf(state, mode, a.settings.Required)), escapes
}

// checkImage asks for the image that sandboxes would run on: the one named
// here, that of the gateway, or the one that is configured.
func (a *app) checkImage(ctx context.Context, s gatewayState, eng images.Engine) doctor.Finding {
	ref := a.settings.Image
	if !a.given("image") && s.sandboxed() {
		ref = s.Gateway.Image
	}
	return doctor.Image(ctx, cmp.Or(ref, images.Default), eng)
}

func (a *app) checkStateDir() []doctor.Finding {
	dir, err := a.stateDir()
	if err != nil {
		return []doctor.Finding{doctor.Failed("state-dir", err, "No sandbox can be made.")}
	}
	return []doctor.Finding{doctor.StateDir(dir), doctor.Damaged(dir)}
}

// checkEnvironment lists what commands on the gateway do not get of ours.
func (a *app) checkEnvironment() doctor.Finding {
	const name = "environment"
	env, err := a.gatewayEnvironment()
	if err != nil {
		return doctor.Failed(name, err, "Commands cannot run on the gateway.")
	}
	f := doctor.Fine(name, "commands on the gateway get this environment, without %d of its variables", len(env.Dropped))
	f.Meaning = inFlags(strings.Join(env.Warnings(), " "))
	return f
}

func (a *app) checkLoginPath(ctx context.Context) doctor.Finding {
	probe := pathenv.NewLoginProbe(pathenv.ProbeOptions{Environ: a.environ, Home: daemon.AccountHome()})
	defer probe.Close()
	began := time.Now()
	path, err := probe.PATH(ctx)
	return doctor.LoginPath(path, time.Since(began), err)
}

func (a *app) checkUsers(f doctor.EngineFacts) doctor.Finding {
	dir, err := a.stateDir()
	if err != nil {
		return doctor.Failed("users", err, "It is not known which users sandboxes have.")
	}
	cfg := daemon.SandboxConfig(daemon.SandboxOptions{Settings: a.settings})
	cfg.StateDir, cfg.Name = dir, ""
	return doctor.Users(cfg, f)
}
