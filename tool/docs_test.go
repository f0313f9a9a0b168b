package tool

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

var update = flag.Bool("update", false, "write the tables in docs/reference/tools.md")

const toolsDoc = "../docs/reference/tools.md"

// The tables of parameters in the documentation are those of the schemas.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(toolsDoc)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for _, d := range New(Config{}).Definitions() {
		begin, end := fmt.Sprintf("<!-- begin %s -->\n", d.Name), fmt.Sprintf("<!-- end %s -->", d.Name)
		before, rest, ok1 := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("%s has no place for the parameters of %s", toolsDoc, d.Name)
		}
		want = before + begin + parameters(d.Input) + end + after
	}
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date; run: go test ./tool -run TestDocs -update", toolsDoc)
	}
	if err := os.WriteFile(toolsDoc, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func parameters(s *jsonschema.Schema) string {
	var b strings.Builder
	b.WriteString("| parameter | type | default | |\n|---|---|---|---|\n")
	for _, name := range s.PropertyOrder {
		p := s.Properties[name]
		byDefault := string(p.Default)
		for _, required := range s.Required {
			if required == name {
				byDefault = "required"
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, typeName(p), byDefault, strings.ReplaceAll(p.Description, "|", `\|`))
	}
	return b.String()
}

func typeName(p *jsonschema.Schema) string {
	switch {
	case p.Enum != nil:
		var names []string
		for _, v := range p.Enum {
			name, _ := json.Marshal(v)
			names = append(names, "`"+strings.Trim(string(name), `"`)+"`")
		}
		return strings.Join(names, " ")
	case p.Type == "array":
		return "list of strings"
	case p.Type == "object":
		return "object of strings"
	case p.Minimum != nil && p.Maximum != nil:
		return fmt.Sprintf("%s, %.0f to %.0f", p.Type, *p.Minimum, *p.Maximum)
	case p.Minimum != nil:
		return fmt.Sprintf("%s, from %.0f", p.Type, *p.Minimum)
	}
	return p.Type
}
