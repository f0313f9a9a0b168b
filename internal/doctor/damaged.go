package doctor

import (
	"fmt"
	"strings"

	"github.com/corral-exec/corral/internal/state/journal"
)

// DamagedFix is the fix for files with damaged pieces.
const DamagedFix = "see whether the disk is sound and what the files say (docs/reference/state.md says what each loss means), then remove them"

// Damaged reports the files of a state directory to which a gateway or node moved the
// pieces that it could not read.
func Damaged(dir string) Finding {
	const name = "damaged"
	const meaning = "What they say was lost when it was found damaged: ends of commands, sessions or overrides. The log of that time says which."
	files, err := journal.Aside(dir)
	if len(files) > 0 {
		return Finding{Name: name, Status: Warn, Summary: "damaged state is kept aside in " + AsideText(files), Meaning: meaning, Fix: DamagedFix}
	}
	if err != nil {
		return Finding{Name: name, Status: Warn, Summary: fmt.Sprintf("cannot look for damaged state in %s: %v", dir, err),
			Meaning: "It is not known whether any is kept aside.", Fix: "look as the user that the gateway runs as"}
	}
	return Fine(name, "no damaged state is kept aside in %s", dir)
}

// ShownAside is the most files that a text for people names.
const ShownAside = 5

func AsideText(files []string) string {
	text := strings.Join(files[:min(len(files), ShownAside)], ", ")
	if n := len(files) - ShownAside; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}
