package policy

import (
	"slices"
	"strings"

	"github.com/corral-exec/corral/internal/programs"
)

// ownCommands are the commands of corral that change what is allowed, or answer
// approvals. A command that the policy decides on must not change the policy.
var ownCommands = map[string]string{
	"approvals": "answers approvals and edits what is remembered",
	"approve":   "answers approvals",
	"config":    "changes the configuration",
	"console":   "prints a link with which approvals can be answered",
	"gateway":   "starts a gateway with a policy of its own",
	"keys":      "makes keys with which approvals can be answered",
	"node":      "starts or pairs a node with a policy of its own",
	"nodes":     "pairs nodes",
	"session":   "changes the settings of sessions",
	"init":      "writes the configuration",
}

// onlyShow are the subcommands of ownCommands that only show something.
const onlyShow = "get list ls show rules file pending path validate check schema status log explain help"

// ownRule denies commands that change the policy or answer approvals. It is in force
// under every security, and no configuration lifts it.
var ownRule = Rule{
	Action: Deny, Pattern: "corral", Source: Source{Name: "built in"},
	Reason: "a command cannot change what is allowed, or answer an approval; a person does it, outside of commands that are decided on",
}

// own says how a command would change what is allowed; empty if it would not.
func own(seg *Segment) string {
	argv := seg.Words
	if len(argv) == 0 || !argv[0].Static {
		return ""
	}
	if program := argv[0].Text; program == "/approve" || program == "/exec" {
		return program + " is for people to say to the agent, and no program"
	}
	if !slices.ContainsFunc([]string{argv[0].Text, seg.RealPath}, func(p string) bool { return programs.NormalizeName(p) == "corral" }) {
		return ""
	}
	flag := false // the word before is a flag, and this one may be its value
	for i, w := range argv[1:] {
		switch {
		case !w.Static:
			return "which command of corral " + programs.Quote(w.Text) + " stands for is not known"
		case w.Text == "--" && !flag:
			return ""
		case w.Text == "--": // the value of the flag before it, so flags go on
			flag = false
			continue
		case len(w.Text) > 1 && w.Text[0] == '-':
			flag = true
			continue
		}
		if why, ok := ownCommands[w.Text]; ok && !shows(argv[i+2:]) {
			return "corral " + w.Text + " " + why
		}
		if !flag {
			return ""
		}
		flag = false
	}
	return ""
}

// noValues are the flags of every command that take no value. The parser takes the word
// behind any other flag for its value as long as it looks for the name of the command.
const noValues = "-h --help -q --quiet"

// shows reports whether a command with these words behind it only shows something.
// A word behind a flag may be its value: then the next has to be in onlyShow too.
func shows(words []Word) bool {
	flag := false
	shown := false
	for _, w := range words {
		switch {
		case !w.Static || w.Text == "":
			return false
		case w.Text[0] == '-':
			flag = !strings.Contains(w.Text, "=") && !programs.HasField(noValues, w.Text)
		case !programs.HasField(onlyShow, w.Text):
			return false
		case !flag:
			return true
		default:
			shown, flag = true, false
		}
	}
	return shown
}
