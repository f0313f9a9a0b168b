package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/report"
	"github.com/corral-exec/corral/internal/terminal"
)

// WriteTable prints the table.
func (a *App) WriteTable(t cmdline.Table) error { return t.Write(a.Stdout, a.coloured()) }

// coloured reports whether colours are wanted on a terminal.
func (a *App) coloured() bool { return a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb" }

// Look is how text is laid out on our standard output.
func (a *App) Look() report.Look {
	f, ok := terminal.Shows(a.Stdout)
	if !ok {
		return report.Look{}
	}
	return report.Look{Width: cmdline.Width(f), Colours: a.coloured()}
}

// Progress shows nothing until there is something to show.
func (a *App) Progress() *report.Progress {
	return &report.Progress{W: a.Stderr, Warn: a.Warn, Quiet: a.Quiet}
}

// PrintJSON prints a document on one line. It has the result of the call in it, so the
// error that is returned has only the exit code of err.
func (a *App) PrintJSON(document any, err error) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetEscapeHTML(false)
	if werr := enc.Encode(document); werr != nil {
		return fmt.Errorf("cannot write the result: %w", werr)
	}
	if err != nil {
		return &ExitError{Code: ExitCode(err)}
	}
	return nil
}

// PrintLine prints a line that was asked for.
func (a *App) PrintLine(text string) error {
	if _, err := fmt.Fprintln(a.Stdout, text); err != nil {
		return fmt.Errorf("cannot write the result: %w", err)
	}
	return nil
}

// Answer prints what a call returned: as JSON if that is wanted, and else as text.
func (a *App) Answer(got any, err error, text func() string) error {
	switch {
	case err != nil:
		return err
	case a.JSON():
		return a.PrintJSON(got, nil)
	}
	return a.PrintLine(text())
}

// PrintList prints a list that a call returned: as JSON if that is wanted, with --quiet the
// name of each that has one, and else as a table.
func PrintList[T any](a *App, list []T, err error, name func(T) string, rows func() cmdline.Table) error {
	switch {
	case err != nil:
		return err
	case a.JSON():
		return a.PrintJSON(append([]T{}, list...), nil)
	case a.Quiet && name != nil:
		for _, one := range list {
			if err := a.PrintLine(name(one)); err != nil {
				return err
			}
		}
		return nil
	}
	return a.WriteTable(rows())
}

// Each does something with each of a list, also after one of them failed, and returns
// the results of those that did not.
func Each[T any](names []string, do func(name string) (T, error)) ([]T, error) {
	done := []T{}
	var errs []error
	for _, name := range names {
		got, err := do(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		done = append(done, got)
	}
	return done, errors.Join(errs...)
}

// PrintRemoved names what was removed, also if not all of it could be.
func (a *App) PrintRemoved(names []string, err error) error {
	if a.JSON() {
		return a.PrintJSON(struct {
			Removed []string `json:"removed"`
			Failure
		}{append([]string{}, names...), NewFailure(err)}, err)
	}
	return a.PrintLines(names, err)
}

// PrintLines prints names with which something was done, and returns the error.
func (a *App) PrintLines(names []string, err error) error {
	for _, name := range names {
		if _, werr := fmt.Fprintln(a.Stdout, name); werr != nil {
			return errors.Join(err, werr)
		}
	}
	return err
}

// Tell says something about what corral does, which is no output.
func (a *App) Tell(text string) {
	if !a.Quiet {
		_, _ = io.WriteString(a.Stderr, text+"\n")
	}
}

// Streams are those of this program.
func (a *App) Streams() foreground.Streams {
	return foreground.Streams{In: a.Stdin, Out: a.Stdout, Err: a.Stderr, Warn: a.Warn}
}
