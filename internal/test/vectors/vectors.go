// Package vectors reads inputs with known answers, one JSON object a line.
package vectors

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// Read returns the lines of a file.
func Read[T any](t testing.TB, file string) []T {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []T
	for line := range strings.Lines(string(data)) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %s: %v", file, line, err)
		}
		list = append(list, v)
	}
	return list
}

// Plain is an answer as a file has it: maps, lists, strings, numbers.
func Plain(t testing.TB, answer any) map[string]any {
	t.Helper()
	data, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	var plain map[string]any
	if err := json.Unmarshal(data, &plain); err != nil {
		t.Fatal(err)
	}
	return plain
}
