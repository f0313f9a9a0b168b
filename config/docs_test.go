package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

var update = flag.Bool("update", false, "write docs/reference/config.schema.json and the table in docs/reference/config.md")

const docsFile = "../docs/reference/config.md"

const begin, end = "<!-- keys: go test ./config -update -->\n", "<!-- end of keys -->\n"

// The table of keys is that of the types.
func TestDocsTable(t *testing.T) {
	data, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", docsFile)
	}
	want := before + begin + table() + end + after
	if *update {
		if err := os.WriteFile(docsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(data) != want {
		t.Errorf("the table in docs/reference/config.md is old: go test ./config -update")
	}
}

// table has every key with its default, its unit or values, and what enforces it.
func table() string {
	var s strings.Builder
	var walk func(sc *jsonschema.Schema, typ reflect.Type, prefix string)
	walk = func(sc *jsonschema.Schema, typ reflect.Type, prefix string) {
		for _, f := range fields(typ) {
			p := sc.Properties[f.name]
			if f.kind == section {
				walk(p, f.of, prefix+f.name+".")
				continue
			}
			value := "–"
			if p.Default != nil {
				value = "`" + strings.Trim(string(p.Default), `"`) + "`"
			}
			fmt.Fprintf(&s, "| `%s%s` | %s | %s | %s | %s |\n", prefix, f.name, kindOf(p), value, f.tag.Get("by"), strings.ReplaceAll(f.tag.Get("doc"), "|", `\|`))
		}
	}
	heading := func(text string) {
		fmt.Fprintf(&s, "\n%s\n\n| key | value | default | enforced by | |\n|---|---|---|---|---|\n", text)
	}
	root := schema()
	heading("For all agents at the top of the file, for each in its entry of `agents.list`, or\nin `agents.defaults`; `workspace` and `unattended` only in these two:")
	walk(root.Properties["agents"].Properties["defaults"], reflect.TypeFor[Agent](), "")
	heading("At the top of the file only:")
	walk(root, reflect.TypeFor[Config](), "")
	return s.String() + "\n"
}

// kindOf says what a key takes.
func kindOf(s *jsonschema.Schema) string {
	var words []string
	for _, t := range types(s) {
		switch {
		case len(s.Enum) > 0:
			words = append(words, "`"+strings.Join(enum(s), "` `")+"`")
		case t == "array":
			words = append(words, "list")
		case t == "integer" || t == "number":
			text := t + unitOf(s)
			if s.Minimum != nil && s.Maximum != nil {
				text += fmt.Sprintf(", %s to %s", number64(*s.Minimum), number64(*s.Maximum))
			} else if s.Maximum != nil {
				text += ", up to " + number64(*s.Maximum)
			}
			words = append(words, text)
		case t == "string" && len(types(s)) > 1:
			words = append(words, "`"+like(s)+"`")
		default:
			words = append(words, t)
		}
	}
	return strings.Join(words, " or ")
}

// The examples in the documents have no mistake, by the schema and by us.
func TestDocsExamples(t *testing.T) {
	s := validator(t)
	examples := 0
	pages, err := filepath.Glob("../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?s)```json5\n(.*?)```").FindAllSubmatch(data, -1) {
			examples++
			if _, err := Parse(page, m[1]); err != nil {
				t.Errorf("%v\n%s", err, m[1])
				continue
			}
			if err := fits(t, s, string(m[1])); err != nil {
				t.Errorf("%s: %v\n%s", page, err, m[1])
			}
		}
	}
	if examples < 3 {
		t.Errorf("there are %d examples", examples)
	}
}
