//go:build e2e

package interactive_test

import (
	"testing"

	"github.com/corral-exec/corral"
)

func TestAttach(t *testing.T) {
	everyGateway(t, func(g *gateway) {
		g.file("notes.txt", "one\ntwo\nthree\n")
		g.corral("exec", "-q", "--background", "--pty", "--id", "editor", "vim notes.txt")
		d := g.sit(corral.Size{Rows: 24, Cols: 90})
		d.types("corral attach editor", "Enter")
		d.until(shows(`\Aone$`), shows(`(?:.*\n){23}.{60,}All\z`))
		d.show("attached")

		// Keys as the program wants them, in both directions.
		d.types("Down", "o", "C-v", "Up", "Escape")
		d.until(shows(`^two\n\^\[OA\nthree$`))
		d.types("u")
		d.until(shows(`^two\nthree$`))
		d.types("i", "typed")
		d.until(shows(`^typed(?:two|three)$`), shows(`-- INSERT --`))

		d.screen.resize(corral.Size{Rows: 40, Cols: 130})
		d.until(shows(`(?:.*\n){39}-- INSERT --.{90,}All\z`))
		before := d.screen.picture()

		d.types("C-p", "C-q")
		d.until(shows(`^detached from editor, which goes on$`), shows(`^desk>$`))
		d.show("detached")
		d.plain()

		// Again, in a terminal of the same size.
		d.types("corral attach editor", "Enter")
		d.until(sight{"what was there before", func(picture string) bool { return picture == before }})
		if got := d.modes(); got != "screen 1, keys 1, keypad 1, mouse 1, cursor 1" {
			g.Errorf("attached again, the terminal is one with %s", got)
		}
		d.types("C-p", "C-q")
		d.until(shows(`^detached from editor`))

		// In another one; the first one goes without a word.
		other := g.sit(corral.Size{Rows: 20, Cols: 70})
		other.types("corral attach editor", "Enter")
		other.until(shows(`\Aone$`), shows(`(?:.*\n){19}-- INSERT --.{30,}All\z`))
		other.screen.tmux("respawn-pane", "-k", "sleep", "infinity")

		d.types("corral attach editor", "Enter")
		d.until(sight{"what was there before", func(picture string) bool { return picture == before }})
		d.types("Escape", ":wq", "Enter")
		d.until(shows(`^desk>$`), lacks(`typed`))
		d.types("echo code $?", "Enter")
		d.until(shows(`^code 0$`))
		d.plain()
		if got := g.read("notes.txt"); got != "one\ntwo\ntypedthree\n" && got != "one\ntypedtwo\nthree\n" {
			g.Errorf("the file is %q", got)
		}
	})
}

// modes is what the terminal was told to do.
func (d *desk) modes() string {
	d.Helper()
	return d.screen.ask("screen #{alternate_on}, keys #{keypad_cursor_flag}, keypad #{keypad_flag}, mouse #{mouse_any_flag}, cursor #{cursor_flag}")
}

// plain demands that the terminal is as a shell wants it.
func (d *desk) plain() {
	d.Helper()
	if got := d.modes(); got != "screen 0, keys 0, keypad 0, mouse 0, cursor 1" {
		d.Errorf("the terminal is left with %s", got)
	}
}

// The keys of a program that does not know but one form of them arrive, also
// after it was left alone; and it is left when it is killed as when it ends.
func TestAttachHtop(t *testing.T) {
	everyGateway(t, func(g *gateway) {
		g.corral("exec", "-q", "--background", "--pty", "--id", "top", "exec htop -d 7")
		d := g.sit(corral.Size{Rows: 24, Cols: 90})
		for range 2 {
			d.types("corral attach top", "Enter")
			d.until(shows(`F10Quit`))
			d.types("F3")
			d.until(shows(`^F3Next .*Search:$`))
			d.types("Escape")
			d.until(shows(`F10Quit`), d.screen.chosen(func(line string) bool { return line != "" }))
			d.types("Home")
			was := d.screen.choice()
			d.types("Down")
			d.until(d.screen.chosen(func(line string) bool { return line != "" && line != was }))
			d.types("C-p", "C-q")
			d.until(shows(`^desk>$`), lacks(`F10Quit`))
			d.plain()
		}
		d.types("corral attach --detach-keys ctrl-a,d top", "Enter")
		d.until(shows(`F10Quit`))
		d.types("C-a", "d")
		d.until(shows(`^desk>$`), lacks(`F10Quit`))
		d.types("corral attach top; echo code $?", "Enter")
		d.until(shows(`F10Quit`))
		g.corral("kill", "-q", "--signal", "KILL", "top")
		d.until(shows(`^code 137$`), lacks(`F10Quit`))
		d.plain()
	})
}

// A program that asks where the cursor is is answered by the terminal that shows
// it, once, and not again by one that shows it later.
func TestAttachCursorQuery(t *testing.T) {
	everyGateway(t, func(g *gateway) {
		g.corral("exec", "-q", "--background", "--pty", "--id", "shell", "PS1='corral> ' exec bash --norc -i")
		d := g.sit(corral.Size{Rows: 24, Cols: 90})
		d.types("corral attach shell", "Enter")
		d.until(shows(`^corral>$`))
		d.types(`read -rsdR -p $'abc\e[6n' report; echo "<${report#*[}>"`, "Enter")
		d.until(shows(`^abc<[0-9]+;4>\ncorral>$`))
		d.types("C-p", "C-q")
		d.until(shows(`^detached from shell`))
		d = g.sit(corral.Size{Rows: 24, Cols: 90})
		d.types("corral attach shell", "Enter")
		d.until(shows(`^abc<[0-9]+;4>\ncorral>$`))
		d.types("echo still there", "Enter")
		d.until(shows(`^corral> echo still there$`), shows(`^still there$`))
		d.types("exit 3", "Enter")
		d.until(shows(`^desk>$`))
		d.types("echo code $?", "Enter")
		d.until(shows(`^code 3$`))
	})
}

// The same with a command in the foreground, which the gateway runs: the terminal that
// started it answers.
func TestExecTerminal(t *testing.T) {
	everyGateway(t, func(g *gateway) {
		d := g.sit(corral.Size{Rows: 24, Cols: 90})
		d.types(`corral exec -q --pty "PS1='corral> ' exec bash --norc -i"; echo code $?`, "Enter")
		d.until(shows(`^corral>$`))
		d.types("stty size; echo $TERM", "Enter")
		d.until(shows(`^24 90\nxterm-256color\ncorral>$`))
		d.types(`read -rsdR -p $'abc\e[6n' report; echo "<${report#*[}>"`, "Enter")
		d.until(shows(`^abc<[0-9]+;4>\ncorral>$`))
		d.screen.resize(corral.Size{Rows: 30, Cols: 100})
		d.types(`until test "$(stty size)" = "30 100"; do sleep 0.1; done; echo re''sized; sleep 1000`, "Enter")
		d.until(shows(`^resized$`))
		d.types("C-c")
		d.until(shows(`^\^C\ncorral>$`))
		d.types("exit 3", "Enter")
		d.until(shows(`^code 3\ndesk>$`))

		// A session that exists already is shown from its beginning, and what it asked
		// then is not answered again.
		const session = `--id again --pty "PS1='corral> ' exec bash --norc -i"`
		d.types("clear; corral exec -q --background "+session+" && corral attach again", "Enter")
		d.until(shows(`^corral>$`))
		d.types(`read -rsdR -p $'abc\e[6n' report; echo "<${report#*[}>"`, "Enter")
		d.until(shows(`^abc<[0-9]+;4>\ncorral>$`))
		d.types("C-p", "C-q")
		d.until(shows(`^detached from again`), shows(`^desk>$`))
		d.types("clear; corral exec -q "+session+"; echo code $?", "Enter")
		d.until(shows(`^abc<[0-9]+;4>\ncorral>$`))
		d.types("echo still there", "Enter")
		d.until(shows(`^corral> echo still there$`), shows(`^still there$`))
		d.types("exit 4", "Enter")
		d.until(shows(`^code 4\ndesk>$`))

		d.types(`corral exec -q --id top --pty 'exec htop'; echo code $?`, "Enter")
		d.until(shows(`F10Quit`))
		g.corral("kill", "-q", "--signal", "KILL", "top")
		d.until(shows(`^code 137$`), lacks(`F10Quit`))
		d.plain()
	})
}
