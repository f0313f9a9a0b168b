//go:build e2e

package interactive_test

import (
	"strings"
	"testing"
)

const function = `def fib(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a

`

const loop = `try:
    while True: x = sum(range(1000))
except KeyboardInterrupt:
    print("interrupted")

`

// prompt is that of Python, for the next line of input.
const prompt = `>>> \z`

func TestPython(t *testing.T) {
	everywhere(t, func(pl *place) {
		d := pl.run("exec python3") // or dash, which gets the C-c too, would end by it
		at := int64(0)
		d.answer(&at, `Type "help".*\n`)
		d.answer(&at, prompt)
		d.waits()

		d.enter(`import os; print(os.environ["TERM"], os.get_terminal_size())`)
		d.answer(&at, `\nxterm-256color os.terminal_size\(columns=120, lines=30\)\r\n`)
		d.answer(&at, prompt)

		d.paste(function, false)
		d.answer(&at, `return a\r\n\.\.\. \r\n`)
		d.answer(&at, prompt)
		d.enter(`fib(90)`)
		d.answer(&at, `\n2880067194370816120\r\n`)
		d.answer(&at, prompt)

		// The line before, made longer.
		d.press("Up", "BSpace", "BSpace", "1", ")", "Home", "1", "+", "End", "Enter")
		d.answer(&at, `\n4660046610375530310\r\n`)
		d.answer(&at, prompt)

		d.paste(loop, false)
		d.answer(&at, `print\("interrupted"\)\r\n\.\.\. \r\n`)
		d.works()
		d.press("C-c")
		d.answer(&at, `\^Cinterrupted\r\n`)
		d.answer(&at, prompt)
		d.waits()
		// This one does not know brackets, and a warning says so.
		_, warnings, err := d.s.Paste(pl.Context(), "6*7", true)
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "bracketed=false") {
			pl.Errorf("%q, %v", warnings, err)
		}
		d.press("Enter")
		d.answer(&at, `\n42\r\n`)
		d.answer(&at, prompt)

		d.press("C-d")
		d.ends(0)
	})
}
