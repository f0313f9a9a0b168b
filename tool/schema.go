package tool

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// Names of the tools.
const (
	ExecName    = "exec"
	ProcessName = "process"
)

// A Definition describes a tool to a model.
type Definition struct {
	Name        string             `json:"name"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	Input       *jsonschema.Schema `json:"inputSchema"`  // of ExecRequest, …
	Output      *jsonschema.Schema `json:"outputSchema"` // of ExecResult, …
}

func definitions(d Defaults) []Definition {
	return []Definition{
		{ExecName, "Run a command", execDescription, execInput(d), resultSchema[ExecResult]()},
		{ProcessName, "Background commands", processDescription, processInput(), resultSchema[ProcessResult]()},
	}
}

const execDescription = `Run a shell command and return its output and exit code.

A command that still runs after yieldMs goes on in the background: the result has status "running" and a sessionId for the tool process. Use background=true for servers and watchers, and a higher timeout for what takes long; do not rely on a trailing & or nohup. Use pty=true for programs that need a terminal.

Status "completed" means that the command ended by itself, with any exit code. "failed" means that it could not be started or was stopped; "unknown" that nobody can tell whether it ran, so look before you repeat it. Output that is too long is shown with its beginning and end; the whole of it is in the session's log.`

const processDescription = `Follow commands that run in the background: read their output, type into them, wait for them, end them.

Prefer wait (for the exit, new output or a pattern) over polling again and again. Sessions outlive the call that began them, and their logs stay until clear or remove.`

// The schemas of types that have a closed set of values.
var enums = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[corral.Host]():     enum(corral.HostSandbox, corral.HostGateway, corral.HostNode),
	reflect.TypeFor[policy.Security](): enum(policy.Securities...),
	reflect.TypeFor[policy.Ask]():      enum(policy.Asks...),
	reflect.TypeFor[Action]():          enum(actions...),
	reflect.TypeFor[Until]():           enum(UntilExit, UntilOutput, UntilPattern),
	reflect.TypeFor[Status]():          enum(StatusCompleted, StatusRunning, StatusFailed, StatusUnknown, StatusApprovalPending, StatusDenied),
	reflect.TypeFor[Reason](): enum(ReasonTimeout, ReasonOOM, ReasonCancelled, ReasonKilled, ReasonInvalid, ReasonWorkdir, ReasonNotFound, ReasonEnded,
		ReasonUnavailable, ReasonConflict, ReasonUnsupported, ReasonNotStarted, ReasonDenied, ReasonLost, ReasonInternal),
	reflect.TypeFor[time.Time](): {Type: "string", Format: "date-time"},
}

func enum[T ~string](values ...T) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

// execInput is the schema of ExecRequest, with the values of d as defaults.
func execInput(d Defaults) *jsonschema.Schema {
	s := inputSchema[ExecRequest]()
	s.Properties["command"].MinLength = new(1)
	setDefault(s, "yieldMs", d.yield().Milliseconds())
	bound(s, "yieldMs", float64(MinYield.Milliseconds()), float64(MaxYield.Milliseconds()))
	setDefault(s, "timeout", d.timeout().Seconds())
	bound(s, "timeout", 0, MaxTimeout.Seconds())
	bound(s, "timeoutSeconds", 0, MaxTimeout.Seconds())
	for _, name := range []string{"background", "pty", "elevated"} {
		setDefault(s, name, false)
	}
	setDefault(s, "notifyOnExit", d.notifyOnExit())
	for name, value := range map[string]string{"host": string(d.Host), "security": string(d.Security), "ask": string(d.Ask), "node": d.Node} {
		if value != "" {
			setDefault(s, name, value)
		}
	}
	return s
}

// processInput is the schema of ProcessRequest.
func processInput() *jsonschema.Schema {
	s := inputSchema[ProcessRequest]()
	for _, name := range []string{"offset", "limit"} {
		s.Properties[name].Minimum = new(0.0)
	}
	bound(s, "timeout", 0, float64(MaxWait.Milliseconds()))
	bound(s, "rows", 1, maxCells)
	bound(s, "cols", 1, maxCells)
	setDefault(s, "bracketed", true)
	setDefault(s, "eof", false)
	return s
}

// inputSchema is the schema of a request. It does not offer null, although null is
// accepted and means that the field is absent.
func inputSchema[T any]() *jsonschema.Schema {
	s := schemaOf[T]()
	for _, p := range s.Properties {
		if len(p.Types) == 2 {
			p.Type, p.Types = p.Types[1], nil // a pointer has null and this type
		}
	}
	return s
}

// resultSchema is the schema of a result. Only fields that every result has are required:
// those of an embedded shape are all there or all missing.
func resultSchema[T any]() *jsonschema.Schema {
	s := schemaOf[T]()
	s.Required = nil
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if _, always := s.Properties[jsonName(f)]; always && len(f.Index) == 1 && !omits(f) {
			s.Required = append(s.Required, jsonName(f))
		}
	}
	return s
}

func schemaOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: enums})
	if err != nil {
		panic(err) // a type of this package without a schema; a test makes all schemas
	}
	loosen(s)
	return s
}

// loosen allows fields that are not described: in requests there is a warning for them,
// and results may get more later. It does not allow null for lists: those of this package
// are never nil.
func loosen(s *jsonschema.Schema) {
	switch {
	case s.Properties != nil:
		s.AdditionalProperties = nil
		for _, p := range s.Properties {
			loosen(p)
		}
	case s.Items != nil:
		s.Type, s.Types = "array", nil
		loosen(s.Items)
	}
}

func bound(s *jsonschema.Schema, name string, low, high float64) {
	s.Properties[name].Minimum, s.Properties[name].Maximum = &low, &high
}

func setDefault(s *jsonschema.Schema, name string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("the default of %s has no JSON: %w", name, err))
	}
	s.Properties[name].Default = text
}
