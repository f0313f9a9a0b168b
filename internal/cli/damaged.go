package cli

import (
	"fmt"
	"strings"

	"github.com/corral-exec/corral/internal/state/journal"
)

// damagedFix is what to do about files with damaged pieces.
const damagedFix = "see whether the disk is sound and what the files say (docs/reference/state.md says what each loss means), then remove them"

// checkDamaged reports the files of a state directory in which a gateway or node has
// kept what it could not read.
func checkDamaged(dir string) finding {
	const name = "damaged"
	const meaning = "What they say was lost when it was found damaged: ends of commands, sessions or overrides. The log of that time says which."
	files, err := journal.Aside(dir)
	if len(files) > 0 {
		return finding{Name: name, Status: levelWarn, Summary: "damaged state is kept aside in " + asideText(files), Meaning: meaning, Fix: damagedFix}
	}
	if err != nil {
		return finding{Name: name, Status: levelWarn, Summary: fmt.Sprintf("cannot look for damaged state in %s: %v", dir, err),
			Meaning: "It is not known whether any is kept aside.", Fix: "look as the user that the gateway runs as"}
	}
	return ok(name, "no damaged state is kept aside in %s", dir)
}

// shownAside is how many files are named where people read.
const shownAside = 5

func asideText(files []string) string {
	text := strings.Join(files[:min(len(files), shownAside)], ", ")
	if n := len(files) - shownAside; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}
