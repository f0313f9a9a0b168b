package corral_test

import (
	"os"
	"strings"
	"testing"
)

// The program in the README is the compiled example.
func TestReadmeProgram(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("sandbox/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(readme), "```go\npackage main\n")
	program, _, _ = strings.Cut(program, "```")
	imports, body, found := strings.Cut(program, "func main() {")
	if !found {
		t.Fatal("the README has no program")
	}
	for _, part := range []string{strings.TrimSpace(imports), "func Example() {" + body} {
		if !strings.Contains(string(example), part) {
			t.Errorf("sandbox/example_test.go does not have this part of the README:\n%s", part)
		}
	}
}
