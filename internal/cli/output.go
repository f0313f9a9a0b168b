package cli

import (
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/report"
	"github.com/corral-exec/corral/internal/terminal"
)

// writeTable prints the table.
func (a *app) writeTable(t cmdline.Table) error { return t.Write(a.stdout, a.coloured()) }

// coloured reports whether colours are wanted on a terminal.
func (a *app) coloured() bool { return a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" }

// look is how text is laid out on our standard output.
func (a *app) look() report.Look {
	f, ok := terminal.Shows(a.stdout)
	if !ok {
		return report.Look{}
	}
	return report.Look{Width: cmdline.Width(f), Colours: a.coloured()}
}

// progress shows nothing until there is something to show.
func (a *app) progress() *report.Progress {
	return &report.Progress{W: a.stderr, Warn: a.warn, Quiet: a.quiet}
}
