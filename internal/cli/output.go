package cli

import (
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/report"
	"github.com/corral-exec/corral/internal/terminal"
)

// writeTable prints the table.
func (a *app) writeTable(t cmdline.Table) error {
	file, ok := a.stdout.(*os.File)
	terminal := ok && terminal.Is(file)
	limit := 0 // columns
	if terminal {
		if cols, _, err := term.GetSize(int(file.Fd())); err == nil {
			limit = cols
		}
	}
	_, err := fmt.Fprint(a.stdout, t.Text(limit, terminal && a.coloured()))
	return err
}

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
