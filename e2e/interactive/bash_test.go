//go:build e2e

package interactive_test

import "testing"

// shellPrompt is that of a bash that was told.
const shellPrompt = `corral> (?:\x1b\[\?2004h)?\z`

func TestBash(t *testing.T) {
	everywhere(t, func(pl *place) {
		d := pl.run("PS1='corral> ' exec bash --norc -i")
		at := int64(0)
		d.answer(&at, shellPrompt)
		d.waits()

		// Nothing of what is pasted is run before Enter.
		d.paste("echo one\necho $((1+1)) \x1b[201~ | cat -v\necho three", true)
		d.press("Enter")
		d.answer(&at, `\rone\r\n2 M-bM-\^PM-\^\[\[201~\r\nthree\r\n`)
		d.answer(&at, shellPrompt)

		// What runs has no prompt, whatever bash does before it.
		d.enter("sleep 1000")
		d.answer(&at, `sleep 1000\r\n`)
		d.works()
		d.press("C-c")
		d.answer(&at, shellPrompt)
		d.waits()
		d.enter("false")
		d.answer(&at, shellPrompt)
		d.press("C-d")
		d.ends(1)
	})
}

// A program that asks where the cursor is gets an answer. The next program reads nothing of
// it.
func TestCursorQuery(t *testing.T) {
	everywhere(t, func(pl *place) {
		d := pl.run(`PS1='corral> ' exec bash --norc -i`)
		at := int64(0)
		d.answer(&at, shellPrompt)
		d.enter(`read -rsdR -p $'\e[6n' report; echo "${report@Q}"`)
		d.answer(&at, `\$'\\E\[1;1'\r\n`)
		d.answer(&at, shellPrompt)
		d.enter("exit 3")
		d.ends(3)
	})
}
