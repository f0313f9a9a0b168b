package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"github.com/corral-exec/corral/internal/terminal"
	"github.com/corral-exec/corral/internal/words"
)

// A cell is a word of a table, and how it looks on a terminal.
type cell struct {
	text  string
	style style
}

// style is an SGR sequence's parameters; empty is none.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// A table is rows of cells under headings. On a terminal it is coloured and no
// wider than that, at the cost of the last column; elsewhere nothing is cut.
type table struct {
	headings []string
	rows     [][]cell
}

const columnGap = 2

// write prints the table.
func (a *app) writeTable(t table) error {
	file, ok := a.stdout.(*os.File)
	terminal := ok && terminal.Is(file)
	limit := 0 // columns
	if terminal {
		if cols, _, err := term.GetSize(int(file.Fd())); err == nil {
			limit = cols
		}
	}
	_, err := fmt.Fprint(a.stdout, t.text(limit, terminal && a.coloured()))
	return err
}

// coloured reports whether colours are wanted on a terminal.
func (a *app) coloured() bool { return a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" }

// text is the table in at most limit columns; 0 is no limit.
func (t table) text(limit int, colours bool) string {
	heading := make([]cell, len(t.headings))
	for i, h := range t.headings {
		heading[i] = cell{h, bold}
	}
	rows := append([][]cell{heading}, t.rows...)
	widths := make([]int, len(t.headings))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(words.Printable(c.text)))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		at, start := 0, 0 // what is written, and where the next cell begins
		for i, c := range row {
			if limit > 0 && start >= limit {
				break
			}
			text := words.Printable(c.text)
			if limit > 0 && start+runewidth.StringWidth(text) > limit {
				text = runewidth.Truncate(text, limit-start, "…")
			}
			if text != "" {
				b.WriteString(strings.Repeat(" ", start-at))
				at = start + runewidth.StringWidth(text)
				if colours && c.style != plain {
					text = "\x1b[" + string(c.style) + "m" + text + "\x1b[m"
				}
				b.WriteString(text)
			}
			start += widths[i] + columnGap
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// whenText is a moment for people: the local time, and how long ago it was, or how
// soon it is. In a table there is the age alone.
func whenText(t, now time.Time) string {
	age := words.Age(now.Sub(t)) + " ago"
	if t.After(now) {
		age = "in " + words.Age(t.Sub(now))
	}
	return t.Local().Format(time.DateTime) + " (" + age + ")"
}
