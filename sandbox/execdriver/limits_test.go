package execdriver_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/test/doctable"
	"github.com/corral-exec/corral/internal/test/exectest"
)

// An execLimit is something that the exec driver cannot do like the other
// drivers: cases of the conformance suite, and why.
type execLimit struct {
	kind   limitKind
	cases  []string // patterns, as of path.Match
	reason string
}

type limitKind string

const (
	// The call answers errors.ErrUnsupported, which is tested.
	unsupported limitKind = "refused"
	// The case passes, in a sandbox that runs nothing else.
	alone limitKind = "alone"
	// The case is not run.
	exempt limitKind = "otherwise"
)

var execLimits = []execLimit{
	{unsupported, []string{
		"signal/deadly", "signal/handled", "signal/stop", "signal/tree", "signal/setsid", "signal/daemon", "signal/leftovers",
		"signal/tty", "signal/others-alone", "signal/other-executors", "start/signals", "cancel/signal-behind",
	}, "The engine's exec API sends no signals."},
	{unsupported, []string{"args/exact", "args/shell-text", "env/invalid-utf8"},
		"The engine takes commands as JSON, in which bytes that are not UTF-8 have no place; they are refused, never replaced."},
	{unsupported, []string{"reopen/ended-between", "reopen/stdin", "reopen/tty", "reopen/signal", "reopen/timeout", "reopen/same-id"},
		"The engine lets nobody connect to a command a second time. What ran when Corral ended is lost: its log stays as it was, and Wait says so."},
	{exempt, []string{"reopen/running", "reopen/many-lives"},
		"As above; these cases read the log, which has ended, before they would be told."},
	{alone, []string{
		"timeout/fraction", "timeout/output", "timeout/no-grace", "timeout/stopped", "timeout/tty", "timeout/children",
		"timeout/setsid", "timeout/nohup", "timeout/daemon*", "timeout/fork*",
	}, "Nothing smaller than the container can be killed for sure. A time-out kills it, and every command in it: this one has timed out, the others are lost. The next command gets a new container."},
	{alone, []string{"drain/*", "tty/daemon"},
		"The engine (20.10) handles the ends of a container's commands one after the other, and waits up to 2 s for the end of each one's output. A descendant that holds an output holds up the others' Wait for as long."},
	{exempt, []string{"timeout/kills", "timeout/grace", "timeout/ignores-term"},
		"As above: the signal is always SIGKILL, and there is no grace."},
	{exempt, []string{"timeout/alone"},
		"As above: the time-out of one command ends the others."},
	{exempt, []string{"exit/signal", "tty/interrupt"},
		"The engine reports the end by a signal as the exit code 128+n, which a command can also exit with by itself. It is kept as it is, without a signal that nobody saw."},
	{exempt, []string{"tty/erase"},
		"The terminal is the engine's, and Backspace erases one byte of a character there."},
	{exempt, []string{"stdin/nobody-reads"},
		"The engine does not say that a command has closed its standard input. What is written to it is lost, or waits until the command ends."},
	{exempt, []string{"orphans/*"},
		"The engine knows a command's own process, and nothing of what that left: Exit.Orphans is always empty."},
	{exempt, []string{"dir/forbidden"},
		"The engine enters the working directory as root, so that a directory which is closed to the command's user is none that it cannot use."},
}

func TestExecDriverLimitsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range execLimits {
		for _, name := range exectest.Like(t, l.cases) {
			if seen[name] {
				t.Errorf("%s is listed twice", name)
			}
			seen[name] = true
		}
	}
}

var update = flag.Bool("update", false, "write the table of docs/reference/exec-driver.md")

func TestDoc(t *testing.T) {
	var table strings.Builder
	table.WriteString("\n| cases | how | why |\n|---|---|---|\n")
	for _, l := range execLimits {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", strings.Join(l.cases, "` `"), l.kind, l.reason)
	}
	table.WriteString("\n")
	doctable.Table{
		File:  "../../docs/reference/exec-driver.md",
		Begin: "<!-- table: go test ./sandbox/execdriver -run TestDoc -update -->\n",
		End:   "<!-- end of table -->\n",
	}.Check(t, table.String(), *update)
}
