package boundary

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/reference/sandbox-security.md has every rule, and none that does not exist.
func TestDocs(t *testing.T) {
	source, err := os.ReadFile("refusal.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/reference/sandbox-security.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]bool{}
	for _, m := range regexp.MustCompile(`Rule += "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
		rules[m[1]] = true
		if !strings.Contains(string(doc), "\n| `"+m[1]+"` |") {
			t.Errorf("the document has no rule %s", m[1])
		}
	}
	if len(rules) < 20 {
		t.Errorf("only %d rules were found", len(rules))
	}
	for _, m := range regexp.MustCompile("\n\\| `([a-z-]+)` \\|").FindAllStringSubmatch(string(doc), -1) {
		if !rules[m[1]] {
			t.Errorf("there is no rule %s", m[1])
		}
	}
}
