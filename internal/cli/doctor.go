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

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/escape"
	"github.com/corral-exec/corral/internal/warden/wardenbin"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/session"
)

// A finding is what one check of corral doctor found.
type finding struct {
	Name    string   `json:"name"`
	Status  severity `json:"status"`
	Summary string   `json:"summary"`           // what is so
	Meaning string   `json:"meaning,omitempty"` // what that means for commands
	Fix     string   `json:"fix,omitempty"`     // what to do about it
}

type severity string

const (
	levelOK   severity = "ok"
	levelWarn severity = "warn" // it works, with a restriction or a risk
	levelFail severity = "fail" // something does not work
)

func ok(name, format string, args ...any) finding {
	return finding{Name: name, Status: levelOK, Summary: fmt.Sprintf(format, args...)}
}

// failed is a check of which the error says everything.
func failed(name string, err error, meaning string) finding {
	return finding{Name: name, Status: levelFail, Summary: inFlags(err.Error()), Meaning: meaning, Fix: inFlags(corral.Hint(err))}
}

// A diagnosis is all that corral doctor says.
type diagnosis struct {
	Status severity  `json:"status"` // the worst
	Checks []finding `json:"checks"`

	// Escapes are the tries of --deep, one by one.
	Escapes []escape.Result `json:"escapes,omitempty"`
}

func newDiagnosis(checks []finding) diagnosis {
	d := diagnosis{Status: levelOK, Checks: checks}
	for _, c := range checks {
		switch {
		case c.Status == levelFail:
			d.Status = levelFail
		case c.Status == levelWarn && d.Status == levelOK:
			d.Status = levelWarn
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
does any harm where it succeeds.`,
		Args: noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, escapes := a.diagnose(cmd.Context(), deep)
			d := newDiagnosis(checks)
			d.Escapes = escapes
			var err error
			if d.Status == levelFail {
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

// levelStyle is how a severity looks on a terminal.
var levelStyle = map[severity]style{levelOK: green, levelWarn: yellow, levelFail: red}

func (a *app) printDiagnosis(d diagnosis) error {
	var b strings.Builder
	look := a.look()
	counts := make(map[severity]int)
	for _, c := range d.Checks {
		counts[c.Status]++
		texts := []string{c.Summary}
		if c.Meaning != "" && (c.Status != levelOK || !a.quiet) {
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
	fmt.Fprintf(&b, "\n%d ok, %d to know about, %d to fix\n", counts[levelOK], counts[levelWarn], counts[levelFail])
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

// lines is text as it fits beside indent columns of a terminal. What goes
// elsewhere, such as to grep, is not broken.
func (a *app) lines(text string, indent int) []string {
	if f, ok := a.stdout.(*os.File); ok && isTerminal(f) {
		return wrap(text, width(f)-indent)
	}
	return []string{text}
}

// diagnose makes every check, with deep also those in a sandbox. Those of the
// engine need it to answer.
func (a *app) diagnose(ctx context.Context, deep bool) (_ []finding, escapes []escape.Result) {
	const withoutEngine = "No sandbox can be made. Commands can run on the gateway only."
	state, gateway := a.checkGatewayState(ctx)
	mode := a.settings.Mode
	if c, err := a.config(); err == nil { // else checkPolicy says what is wrong with it
		a.settings = a.settingsOf(c.Agent(session.DefaultAgent))
	}
	if !state.Ready { // a gateway that runs follows the configuration by itself
		mode = a.settings.Mode
	}
	var checks []finding
	if a.backends.engines != nil {
		checks = append(checks, checkEngines(a.engineChoice(), a.backends.engines(ctx)))
	}
	err := a.withEngine(ctx, func(ctx context.Context, eng engine) error {
		facts, err := eng.Facts(ctx)
		if err != nil {
			return err
		}
		checks = append(checks, checkEngine(facts), checkSocket(facts.Address, os.Geteuid(), socketMode))
		if !facts.Rootless {
			checks = append(checks, checkRunc(facts))
		} else {
			checks = append(checks, checkRunc(facts), ok("rootless", "the engine runs without root"))
		}
		checks = append(checks,
			checkRuntimes(facts, a.settings.Runtime),
			checkCgroup(facts),
			a.checkUsers(facts),
			checkSeccomp(facts),
			checkPrivileges(facts),
			checkWarden(facts.Arch, wardenbin.Bytes),
			a.checkImage(ctx, state, eng.Images()))
		if deep {
			var f finding
			f, escapes = a.checkEscape(ctx, facts.Arch, facts.Local)
			checks = append(checks, f)
		}
		return nil
	})
	if err != nil {
		checks = append(checks, failed("engine", err, withoutEngine), checkWarden(runtime.GOARCH, wardenbin.Bytes))
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
func (a *app) checkImage(ctx context.Context, s gatewayState, eng images.Engine) finding {
	ref := a.settings.Image
	if !a.given("image") && s.sandboxed() {
		ref = s.Gateway.Image
	}
	return checkImage(ctx, cmp.Or(ref, images.Default), eng)
}

func (a *app) checkStateDir() []finding {
	dir, err := a.stateDir()
	if err != nil {
		return []finding{failed("state-dir", err, "No sandbox can be made.")}
	}
	return []finding{checkStateDir(dir), checkDamaged(dir)}
}

// checkEnvironment lists what commands on the gateway do not get of ours.
func (a *app) checkEnvironment() finding {
	const name = "environment"
	env, err := a.gatewayEnvironment()
	if err != nil {
		return failed(name, err, "Commands cannot run on the gateway.")
	}
	f := ok(name, "commands on the gateway get this environment, without %d of its variables", len(env.Dropped))
	f.Meaning = inFlags(strings.Join(env.Warnings(), " "))
	return f
}

func (a *app) checkLoginPath(ctx context.Context) finding {
	probe := pathenv.NewLoginProbe(pathenv.ProbeOptions{Environ: a.environ, Home: accountHome()})
	defer probe.Close()
	began := time.Now()
	path, err := probe.PATH(ctx)
	return checkLoginPath(path, time.Since(began), err)
}
