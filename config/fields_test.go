package config

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// No key is without effect: its field is named by code that is no test.
func TestKeysAreRead(t *testing.T) {
	var code bytes.Buffer
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		code.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		for _, f := range fields(of) {
			name := of.Field(f.i).Name
			switch {
			case f.kind == section:
				walk(f.of)
			case f.of != reflect.TypeFor[Always]() && !bytes.Contains(code.Bytes(), []byte("."+name)):
				t.Errorf("nothing reads %s, the key %s", name, f.name)
			}
		}
	}
	walk(reflect.TypeFor[Agent]())
	walk(reflect.TypeFor[Config]())
}
