package cmdline

import (
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"github.com/corral-exec/corral/internal/terminal"
	"github.com/corral-exec/corral/internal/words"
)

// A Cell is a word of a table, and how it looks on a terminal.
type Cell struct {
	Text  string
	Style Style
}

// Style is an SGR sequence's parameters; empty is none.
type Style string

const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// A Table is rows of cells under headings. On a terminal it is coloured and no
// wider than that, at the cost of the last column; elsewhere nothing is cut.
type Table struct {
	Headings []string
	Rows     [][]Cell
}

// ColumnGap is between two columns.
const ColumnGap = 2

// Write prints the table, with colours if they are wanted and w is a terminal.
func (t Table) Write(w io.Writer, colours bool) error {
	file, ok := w.(*os.File)
	shows := ok && terminal.Is(file)
	limit := 0 // columns
	if shows {
		if cols, _, err := term.GetSize(int(file.Fd())); err == nil {
			limit = cols
		}
	}
	_, err := io.WriteString(w, t.Text(limit, shows && colours))
	return err
}

// Text is the table in at most limit columns; 0 is no limit.
func (t Table) Text(limit int, colours bool) string {
	heading := make([]Cell, len(t.Headings))
	for i, h := range t.Headings {
		heading[i] = Cell{h, Bold}
	}
	rows := append([][]Cell{heading}, t.Rows...)
	widths := make([]int, len(t.Headings))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(words.Printable(c.Text)))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		at, start := 0, 0 // what is written, and where the next cell begins
		for i, c := range row {
			if limit > 0 && start >= limit {
				break
			}
			text := words.Printable(c.Text)
			if limit > 0 && start+runewidth.StringWidth(text) > limit {
				text = runewidth.Truncate(text, limit-start, "…")
			}
			if text != "" {
				b.WriteString(strings.Repeat(" ", start-at))
				at = start + runewidth.StringWidth(text)
				if colours && c.Style != Plain {
					text = "\x1b[" + string(c.Style) + "m" + text + "\x1b[m"
				}
				b.WriteString(text)
			}
			start += widths[i] + ColumnGap
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// WhenText is a moment for people: the local time, and how long ago it was, or how
// soon it is. In a table there is the age alone.
func WhenText(t, now time.Time) string {
	age := words.Age(now.Sub(t)) + " ago"
	if t.After(now) {
		age = "in " + words.Age(t.Sub(now))
	}
	return t.Local().Format(time.DateTime) + " (" + age + ")"
}
