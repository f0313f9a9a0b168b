//go:build e2e

package interactive_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/session/keys"
)

// chosenLine is a line of htop's table that is chosen: its background is cyan,
// or yellow when it was searched for.
var chosenLine = regexp.MustCompile(`(?m)^(?:\x1b\[[0-9;]*m| )*\x1b\[(?:[0-9]+;)*4[36]m(?:\x1b\[[0-9;]*m| )*[0-9]+ .*$`)

// choice is the line that is chosen now.
func (s *screen) choice() string {
	s.Helper()
	return strings.TrimSpace(style.ReplaceAllString(chosenLine.FindString(s.styled()), ""))
}

// chosen is such a line being chosen.
func (s *screen) chosen(is func(line string) bool) sight {
	return sight{"the right line being chosen", func(string) bool { return is(s.choice()) }}
}

func TestHtop(t *testing.T) {
	everywhere(t, func(pl *place) {
		d := pl.run("htop -d 7")
		d.until(shows(`Tasks: `), shows(`^ *PID.USER .*Command`), shows(`^F1Help .*F5Tree .*F10Quit`))
		d.show("htop has started")

		first := ""
		d.until(d.screen.chosen(func(line string) bool { first = line; return line != "" }))
		d.press("Down")
		d.until(d.screen.chosen(func(line string) bool { return line != "" && line != first }))

		d.press("F5")
		d.until(shows(`F5List`), shows(`[├└]─ `))
		d.show("as a tree")
		d.press("F5")
		d.until(shows(`F5Tree`), lacks(`[├└]─ `))

		// It finds itself.
		d.press("F3")
		d.until(shows(`^F3Next .*Search:$`))
		d.send(keys.Request{Literal: "htop -d 7"})
		d.until(shows(`Search: htop -d 7$`))
		d.until(d.screen.chosen(func(line string) bool { return strings.Contains(line, "htop -d 7") }))
		d.press("Escape")
		d.until(shows(`F10Quit`))

		d.resize(corral.Size{Rows: 15, Cols: 100})
		d.until(shows(`\A(?:.*\n){14}F1Help .*F10Quit *\z`))
		d.press("F10")
		d.ends(0)
	})
}
