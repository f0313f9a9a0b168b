package report

import (
	"fmt"
	"strings"

	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/doctor"
)

var severityStyle = map[doctor.Severity]cmdline.Style{doctor.OK: cmdline.Green, doctor.Warn: cmdline.Yellow, doctor.Fail: cmdline.Red}

// Findings are those of the doctor, and how many of each kind there are. If brief is set,
// nothing is explained that is as it should be.
func (l Look) Findings(checks []doctor.Finding, brief bool) string {
	var b strings.Builder
	counts := make(map[doctor.Severity]int)
	for _, c := range checks {
		counts[c.Status]++
		texts := []string{c.Summary}
		if c.Meaning != "" && (c.Status != doctor.OK || !brief) {
			texts = append(texts, c.Meaning)
		}
		if c.Fix != "" {
			texts = append(texts, "fix: "+c.Fix)
		}
		left := fmt.Sprintf("%-4s  %-10s  ", c.Status, c.Name)
		indent := strings.Repeat(" ", len(left))
		left = strings.Replace(left, string(c.Status), l.In(severityStyle[c.Status], string(c.Status)), 1)
		for i, text := range texts {
			lines := []string{text}
			if l.Width > 0 {
				lines = cmdline.Wrap(text, l.Width-len(indent))
			}
			for _, line := range lines {
				if i > 0 {
					line = l.In(cmdline.Dim, line)
				}
				b.WriteString(left + line + "\n")
				left = indent
			}
		}
	}
	fmt.Fprintf(&b, "\n%d ok, %d to know about, %d to fix\n", counts[doctor.OK], counts[doctor.Warn], counts[doctor.Fail])
	return b.String()
}
