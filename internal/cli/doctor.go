package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/escape"
	"github.com/corral-exec/corral/internal/foreground"
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
		checks[i].Summary, checks[i].Meaning, checks[i].Fix = app.InFlags(c.Summary), app.InFlags(c.Meaning), app.InFlags(c.Fix)
		switch {
		case c.Status == doctor.Fail:
			d.Status = doctor.Fail
		case c.Status == doctor.Warn && d.Status == doctor.OK:
			d.Status = doctor.Warn
		}
	}
	return d
}

func (a commands) doctorCommand() *cobra.Command {
	var deep bool
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
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var d diagnosis
			err := foreground.UntilSignal(cmd.Context(), func(ctx context.Context) error {
				m, err := a.Machine()
				if err != nil { // nothing else can be checked
					d = newDiagnosis([]doctor.Finding{doctor.Failed("state-dir", err, "No sandbox can be made.")})
					return nil
				}
				checks, escapes := m.Checks(ctx, deep)
				d = newDiagnosis(checks)
				d.Escapes = escapes
				return ctx.Err()
			})
			if err != nil {
				return err
			}
			if d.Status == doctor.Fail {
				err = &app.ExitError{Code: app.ExitFindings}
			}
			if a.JSON() {
				return a.PrintJSON(d, err)
			}
			_, werr := fmt.Fprint(a.Stdout, a.Look().Findings(d.Checks, a.Quiet))
			return cmp.Or(werr, err)
		},
	}
	app.AddJSONFlag(cmd)
	cmd.Flags().BoolVar(&deep, "deep", false, "make a sandbox and try to get out of it")
	a.AddSandboxFlags(cmd)
	for _, name := range []string{"driver", "workspace", "workspace-access", "user", "memory", "cpus", "pids", "name", "ephemeral"} {
		cmdline.Must(cmd.Flags().MarkHidden(name))
	}
	return cmd
}
