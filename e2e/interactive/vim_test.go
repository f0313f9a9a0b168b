//go:build e2e

package interactive_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

// pasted is hard to paste: tabs and spaces that an editor may have
// its own mind about, commands of vim, an Escape, and the end of the brackets
// of bracketed paste.
const (
	pasted = "\tone\n\t\ttwo  \n:q!\n    dd\n\x1b:q!\n\x1b[201~:q!\nünd 日本語"
	kept   = "\tone\n\t\ttwo  \n:q!\n    dd\n␛:q!\n␛[201~:q!\nünd 日本語"
)

func TestVim(t *testing.T) {
	everywhere(t, func(pl *place) {
		var lines []string
		for n := range 60 {
			lines = append(lines, fmt.Sprintf("line %d\n", n+1))
		}
		text := strings.Join(lines, "")
		pl.file("notes.txt", text)
		d := pl.run("vim notes.txt")
		d.until(shows(`\Aline 1$`), shows(`^"notes.txt" 60L`), shows(`1,1 +Top$`))
		d.waits()

		// The keys of the cursor.
		d.press("Down", "Down", "Down")
		d.until(shows(` 4,1 +Top$`))
		d.press("End")
		d.until(shows(` 4,6 +Top$`))
		d.press("Left", "Up")
		d.until(shows(` 3,5 +Top$`))
		d.press("Home")
		d.until(shows(` 3,1 +Top$`))
		d.press("PageDown")
		d.until(shows(`^line 50$`), lacks(`^line 3$`))
		d.press("PageUp")
		d.until(shows(`\Aline 1$`), lacks(`^line 50$`))
		d.press("C-End")
		d.until(shows(` 60,7 +Bot$`))

		// What Up really sent: C-v has vim insert it as it is.
		d.press("o", "C-v", "Up")
		d.until(shows(`^\^\[OA$`), shows(`^-- INSERT --`))
		d.press("Escape", "u")
		d.until(lacks(`\^\[OA`), lacks(`INSERT`))

		d.press("o")
		d.until(shows(`^-- INSERT --`))
		d.paste(pasted, true)
		d.until(shows(`^line 60$`), shows(`^        one$`), shows(`^                two$`), shows(`^:q!$`),
			shows(`^    dd$`), shows(`^␛:q!$`), shows(`^␛\[201~:q!$`), shows(`^ünd 日本語$`), shows(`^-- INSERT --`))
		d.show("after the paste")
		d.press("Escape")
		d.until(lacks(`INSERT`))
		d.press("u")
		d.until(lacks(`:q!`), shows(`7 fewer lines; before #`))
		d.press("C-r")
		d.until(shows(`^␛:q!$`), shows(`7 more lines; after #`))

		// Larger, smaller.
		d.resize(corral.Size{Rows: 45, Cols: 150})
		d.until(shows(`^line 30$`), shows(`(?:.*\n){44}.{120,}Bot\z`))
		d.show("larger")
		d.resize(corral.Size{Rows: 12, Cols: 60})
		d.until(lacks(`^line 54$`), shows(`(?:.*\n){11}.{30,60}%\z`))

		d.press(":wq", "Enter")
		d.ends(0)
		if got, want := pl.read("notes.txt"), text+kept+"\n"; got != want {
			pl.Errorf("the file is\n%q, not\n%q", got, want)
		}
	})
}
