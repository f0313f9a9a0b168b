package cli

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

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
			widths[i] = max(widths[i], runewidth.StringWidth(printable(c.text)))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		at, start := 0, 0 // what is written, and where the next cell begins
		for i, c := range row {
			if limit > 0 && start >= limit {
				break
			}
			text := printable(c.text)
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

// printable is text on one line that does nothing to a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		// Marks of direction make text look like another.
		if unicode.IsControl(r) || r == unicode.ReplacementChar || unicode.Is(unicode.Bidi_Control, r) {
			return '?'
		}
		return r
	}, words.OneLine(text))
}

// ageText is a time for people, with the two largest units at most.
func ageText(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return twoUnits(int(d.Minutes()), "m", int(d.Seconds())%60, "s")
	case d < 24*time.Hour:
		return twoUnits(int(d.Hours()), "h", int(d.Minutes())%60, "m")
	}
	return twoUnits(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
}

// whenText is a moment for people: the local time, and how long ago it was, or how
// soon it is. In a table there is the age alone.
func whenText(t, now time.Time) string {
	age := ageText(now.Sub(t)) + " ago"
	if t.After(now) {
		age = "in " + ageText(t.Sub(now))
	}
	return t.Local().Format(time.DateTime) + " (" + age + ")"
}

func twoUnits(large int, unit string, small int, smaller string) string {
	if small == 0 {
		return fmt.Sprintf("%d%s", large, unit)
	}
	return fmt.Sprintf("%d%s%d%s", large, unit, small, smaller)
}
