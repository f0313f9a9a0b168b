package sshexec

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/test/doctable"
	"github.com/corral-exec/corral/internal/test/exectest"
)

// A limit is something that is not like on other nodes: cases of the
// conformance suite, and why.
type limit struct {
	kind   limitKind
	cases  []string // patterns, as of path.Match
	reason string
}

type limitKind string

const (
	refused   limitKind = "refused"   // some call answers errors.ErrUnsupported, which is tested
	otherwise limitKind = "otherwise" // the case is not run
)

var limits = []limit{
	{refused, []string{"signal/deadly", "signal/handled", "start/signals"},
		"Real-time signals have numbers and names that differ between systems. The others in these cases arrive, as other tests show."},
	{refused, []string{"reopen/ended-between", "reopen/stdin", "reopen/tty", "reopen/signal", "reopen/timeout", "reopen/same-id"},
		"An SSH session ends with its connection. What ran when the gateway ended is lost: its log stays as it was, and Wait says so. It can still be signalled, where the processes are found."},
	{otherwise, []string{"reopen/running", "reopen/many-lives"},
		"As above; these cases read the log, which has ended, before they would be told."},
	{otherwise, []string{"exit/signal"},
		"OpenSSH names the signals of RFC 4254 and no others: of a command that another one ended it is not known which, and it is lost. Those that have names are reported, as another test shows."},
	{otherwise, []string{"signal/daemon", "timeout/daemon-clear-env", "timeout/daemon-detached"},
		"Processes are found by their session, their ancestry and their environment. A daemon that left all three is not."},
	{otherwise, []string{"orphans/*"},
		"Nobody on the other side sees what a command leaves: Exit.Orphans is always empty."},
	{otherwise, []string{"path/prepend", "path/prepend-first", "path/prepend-literal"},
		"As on every node, pathPrepend applies only where the call's env sets PATH, which is additions before the node's own."},
	{otherwise, []string{"stdin/nobody-reads"},
		"The server does not say that a command has closed its standard input. What is written to it is lost, or waits until the command ends."},
}

func TestLimitsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range limits {
		for _, name := range exectest.Like(t, l.cases) {
			if seen[name] {
				t.Errorf("%s is listed twice", name)
			}
			seen[name] = true
		}
	}
}

var update = flag.Bool("update", false, "write the table of docs/how-to/ssh-nodes.md")

func TestDoc(t *testing.T) {
	var table strings.Builder
	table.WriteString("\n| cases | how | why |\n|---|---|---|\n")
	for _, l := range limits {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", strings.Join(l.cases, "` `"), l.kind, l.reason)
	}
	table.WriteString("\n")
	doc := doctable.Table{
		File:  "../../docs/how-to/ssh-nodes.md",
		Begin: "<!-- table: go test ./nodeexec/sshexec -run TestDoc -update -->\n",
		End:   "<!-- end of table -->\n",
	}.Check(t, table.String(), *update)
	for _, key := range notHonoured {
		if !strings.Contains(doc, "`"+key+"`") {
			t.Errorf("%s does not say that %s is refused", "docs/how-to/ssh-nodes.md", key)
		}
	}
}
