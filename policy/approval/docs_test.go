package approval

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table in docs/reference/openclaw.md")

// TestAlwaysDocs: the documentation lists where remembered rules differ from OpenClaw's.
func TestAlwaysDocs(t *testing.T) {
	const file, begin, end = "../../docs/reference/openclaw.md", "<!-- always: go test ./policy/approval -run TestAlwaysDocs -update -->\n", "<!-- end -->\n"
	data, err := os.ReadFile(file)
	ok(t, err)
	before, rest, has := strings.Cut(string(data), begin)
	_, after, has2 := strings.Cut(rest, end)
	if !has || !has2 {
		t.Fatalf("%s has no place for the table", file)
	}
	vectors, err := os.ReadFile("testdata/always.jsonl")
	ok(t, err)
	table := "| command | why |\n|---|---|\n"
	for line := range strings.Lines(string(vectors)) {
		var v alwaysVector
		ok(t, json.Unmarshal([]byte(line), &v))
		if why := alwaysDiffers[v.ID]; why != "" {
			command := v.Input.Command
			if command == "" {
				command = v.Input.First + " and then " + v.Input.Second
			}
			table += fmt.Sprintf("| `%s` | %s |\n", command, why)
		}
	}
	want := before + begin + table + end + after
	if *update {
		ok(t, os.WriteFile(file, []byte(want), 0o644))
	} else if string(data) != want {
		t.Errorf("the table in %s is old: go test ./policy/approval -run TestAlwaysDocs -update", file)
	}
}
