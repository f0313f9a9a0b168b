package guard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

// A node decides also by a rule that is longer than an answer can be.
func TestNodeLongRule(t *testing.T) {
	var runs []string
	for i := range 1000 {
		runs = append(runs, fmt.Sprintf("\"/opt/programs/with/a/name/that/is/longer/than/most/names/%d/\"", i))
	}
	p := newPair(t, `tools: {exec: {security: "allowlist", ask: "on-miss", rules: [{allow: "/**/tool", runs: [`+strings.Join(runs, ", ")+`]}]}}`,
		`tools: {exec: {security: "full", ask: "off"}}`)
	if _, err := p.start(corral.Command{ID: "one", Shell: "tool a"}); err != nil {
		t.Error(err)
	}
}
