package runshell

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/tool"
)

// Definitions describe the tool to a model, with the parameters of the profile.
func (t *Tool) Definitions() []tool.Definition {
	var in *jsonschema.Schema
	if t.cfg.Profile == pathenv.ProfileAsimi {
		in = schemaOf[asimiArguments]()
	} else {
		in = schemaOf[qwenArguments]()
		p := in.Properties["is_background"]
		p.Type, p.Types = "boolean", nil
	}
	in.Properties["command"].MinLength = new(1)
	if p := in.Properties["directory"]; p != nil {
		p.Default = json.RawMessage(`"."`)
	}
	out := schemaOf[plainOutput]()
	out.Properties["backgroundPids"].Type, out.Properties["backgroundPids"].Types = "array", nil
	return []tool.Definition{{Name: Name, Title: "Run a shell command", Description: Description, Input: in, Output: out}}
}

// schemaOf is the schema of a struct of this package. It allows members that it does not
// describe: in requests there is a warning for them, and results may get more later.
func schemaOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // a type of this package without a schema; a test makes all schemas
	}
	s.AdditionalProperties = nil
	return s
}
