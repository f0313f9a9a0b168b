package tool

import (
	"encoding/json"
	"testing"
)

func TestDefinitionsHaveSchemas(t *testing.T) {
	for _, d := range Definitions() {
		text, err := json.MarshalIndent(d, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", text)
		for _, s := range []interface{ String() string }{d.Input, d.Output} {
			_ = s
		}
		if _, err := d.Input.Resolve(nil); err != nil {
			t.Error(err)
		}
		if _, err := d.Output.Resolve(nil); err != nil {
			t.Error(err)
		}
	}
}
