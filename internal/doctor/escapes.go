package doctor

import (
	"fmt"
	"strings"

	"github.com/corral-exec/corral/internal/escape"
)

// Escapes makes a finding of the results of tries.
func Escapes(results []escape.Result) Finding {
	count := map[escape.Outcome]int{}
	var out []string
	for _, r := range results {
		count[r.Outcome]++
		if r.Outcome == escape.Escaped {
			out = append(out, fmt.Sprintf("%s (it %s: %s)", r.ID, r.Tries, r.Detail))
		}
	}
	text := fmt.Sprintf("of %d tries to get out of a sandbox %d were held", len(results), count[escape.Held]+count[escape.Inside])
	if n := count[escape.Inside]; n > 0 {
		text += fmt.Sprintf(" (%d of them reached gVisor's own kernel)", n)
	}
	if n := count[escape.Unsupported]; n > 0 {
		text += fmt.Sprintf(", %d could not be made here", n)
	}
	switch {
	case len(results) == 0:
		return Finding{Name: "escape", Status: Fail, Summary: "no try to get out of a sandbox was made", Meaning: "It is not known whether a command in a sandbox can get out."}
	case len(out) == 0:
		return Fine("escape", "%s", text)
	}
	return Finding{Name: "escape", Status: Fail, Summary: fmt.Sprintf("%s, and %d got out: %s", text, len(out), strings.Join(out, "; ")),
		Meaning: "What is in a sandbox made with these settings can reach this machine, or could by a hole in its kernel.",
		Fix:     "see docs/reference/escape.md for what holds each of them; use the engine's default profiles, or --runtime runsc; if all is as it should be, report it"}
}
