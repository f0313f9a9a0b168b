package runshell

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/tool"
)

// Definitions are what a model is told: the one tool, with the parameters of the
// profile.
func (t *Tool) Definitions() []tool.Definition {
	var in *jsonschema.Schema
	if t.cfg.Profile == pathenv.ProfileAsimi {
		in = schemaOf[asimiArguments]()
	} else {
		in = schemaOf[qwenArguments]()
		p := in.Properties["is_background"]
		p.Type, p.Types = "boolean", nil
	}
	in.Properties["command"].MinLength = jsonschema.Ptr(1)
	if p := in.Properties["directory"]; p != nil {
		p.Default = json.RawMessage(`"."`)
	}
	out := schemaOf[plainOutput]()
	out.Properties["backgroundPids"].Type, out.Properties["backgroundPids"].Types = "array", nil
	return []tool.Definition{{Name: Name, Title: "Run a shell command", Description: Description, Input: in, Output: out}}
}

// schemaOf is the schema of a struct of this package, with members that it does
// not describe: in requests they are warned of, in results there may be more one
// day.
func schemaOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // a type of this package that has no schema; a test makes them all
	}
	s.AdditionalProperties = nil
	return s
}
