package config

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/corral-exec/corral/internal/json5"
)

// validator is the published schema in a validator of JSON Schema that is not
// ours.
func validator(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("config.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fits is what the validator says of a text.
func fits(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	doc, err := json5.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc.Root.JSON()))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// goOnly are the mistakes that a schema cannot say, by what is said of them.
var goOnly = []string{"is there already, as", "no regular expression", "cannot expand", "is not between", "in pathPrepend", "pathPrepend["}

// The checks and the schema come to the same answer.
func TestSchemaAgrees(t *testing.T) {
	s := validator(t)
	for _, text := range slices.Concat(goodFiles, textsOf(badFiles)) {
		schemaErr := fits(t, s, text)
		_, err := Parse("f", []byte(text))
		if (err == nil) == (schemaErr == nil) {
			continue
		}
		if err != nil && slices.ContainsFunc(goOnly, func(part string) bool { return strings.Contains(err.Error(), part) }) {
			continue
		}
		t.Errorf("%s\nschema: %v\nchecks: %v", text, schemaErr, err)
	}
}

func textsOf(list []badFile) []string {
	var all []string
	for _, f := range list {
		all = append(all, f.text)
	}
	return all
}

// Whatever is in the examples of the schema's patterns fits them, and defaults
// fit their keys.
func TestSchemaFitsItself(t *testing.T) {
	root := schema()
	for _, key := range Keys() {
		path, err := json5.ParsePath(key)
		if err != nil {
			t.Fatal(err)
		}
		s, err := lookup(path)
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		for _, text := range s.Examples {
			if !compiled(s.Pattern).MatchString(text.(string)) {
				t.Errorf("%s: %q does not fit %s", key, text, s.Pattern)
			}
		}
		if s.Pattern != "" && s.Pattern != `\S` && s.Examples == nil {
			t.Errorf("%s has a pattern, and nothing that fits", key)
		}
		if s.Default != nil {
			doc, err := json5.Parse(s.Default)
			if err != nil {
				t.Errorf("%s: %v", key, err)
				continue
			}
			m := &mistakes{doc: doc}
			if m.fit(doc.Root, s, path); len(m.list) > 0 {
				t.Errorf("%s: %v", key, m.list)
			}
		}
		if _, last := path[len(path)-1], s.Description; last == "" && !strings.HasSuffix(key, "]") && !strings.Contains(key, "NAME") {
			t.Errorf("%s is not described", key)
		}
	}
	if root.Schema != "https://json-schema.org/draft/2020-12/schema" {
		t.Error(root.Schema)
	}
}

// Every value says what enforces it, and its field is named by code that is no test.
// Every time says in what unit it is.
func TestEverythingIsEnforced(t *testing.T) {
	code := productCode(t)
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		for _, f := range fields(typ) {
			switch {
			case f.kind == section:
				walk(f.of)
			case f.tag.Get("by") == "":
				t.Errorf("%v.%s: nothing enforces it", typ, f.name)
			case unitNames[f.tag.Get("unit")] == "" && (f.tag.Get("unit") != "" || f.of == reflect.TypeFor[time.Duration]()):
				t.Errorf("%v.%s: the unit is %q", typ, f.name, f.tag.Get("unit"))
			case f.of != reflect.TypeFor[Always]() && !bytes.Contains(code, []byte("."+typ.Field(f.i).Name)):
				t.Errorf("%v.%s: nothing reads it", typ, f.name)
			}
		}
	}
	walk(reflect.TypeFor[Agent]())
	walk(reflect.TypeFor[Config]())
}

// productCode is all code of Go that is no test.
func productCode(t *testing.T) (code []byte) {
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		code = append(code, text...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return code
}

const schemaFile = "../docs/reference/config.schema.json"

func TestPublishedSchema(t *testing.T) {
	if *update {
		if err := os.WriteFile(schemaFile, Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil || !bytes.Equal(got, Schema()) {
		t.Errorf("docs/reference/config.schema.json is not that of the types (go test ./config -update): %v", err)
	}
	if !json.Valid(got) {
		t.Error("it is not JSON")
	}
}
