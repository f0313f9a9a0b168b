package patch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/strictjson"
)

// Name of the tool.
const Name = "apply_patch"

// Config of a Tool. Target is required.
type Config struct {
	Target Target
	// DryRun: the result is as if the patch were applied, but its files are not
	// changed. A dry run still undoes an earlier patch that was interrupted.
	DryRun bool
}

// A Tool is apply_patch for one workspace. Its methods may be called from any
// goroutine.
type Tool struct{ cfg Config }

// New returns the tool.
func New(cfg Config) *Tool { return &Tool{cfg} }

// Status is the outcome of a call. The set is closed, and a part of that of the tool exec.
type Status string

const (
	StatusCompleted Status = "completed" // the patch is applied
	StatusFailed    Status = "failed"    // nothing was changed: see Reason
	StatusDenied    Status = "denied"    // nothing was changed: the patch may not
	StatusUnknown   Status = "unknown"   // it cannot be known what was changed
)

// Reason is why a call is not completed. The set is closed.
type Reason string

const (
	ReasonInvalid     Reason = "invalid"     // the patch is malformed, or does not fit the files
	ReasonDenied      Reason = "denied"      // it names a file that it may not change
	ReasonWorkdir     Reason = "workdir"     // there is no workspace
	ReasonUnavailable Reason = "unavailable" // the call can be repeated
	ReasonUnsupported Reason = "unsupported" // not possible on this system
	ReasonCancelled   Reason = "cancelled"   // the call was cancelled
	ReasonLost        Reason = "lost"        // with StatusUnknown
	ReasonInternal    Reason = "internal"    // anything else
)

// A Result is the result of a call.
type Result struct {
	Status Status `json:"status"`
	Reason Reason `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"` // one line
	Hint   string `json:"hint,omitempty"`  // what to do about it

	Summary Summary     `json:"summary"`         // its lists are empty unless completed
	Match   *MatchError `json:"match,omitempty"` // the lines that were not found
	DryRun  bool        `json:"dryRun,omitempty"`
	Message string      `json:"text"` // for a model

	Warnings []string `json:"warnings"` // complete sentences; never nil
}

// Text is the result for a model.
func (r Result) Text() string { return r.Message }

// Failed reports whether the patch was not applied.
func (r Result) Failed() bool { return r.Status != StatusCompleted }

// Call applies the patch in the arguments, a JSON object with the string input. All
// failures are in the Result.
func (t *Tool) Call(ctx context.Context, arguments json.RawMessage) Result {
	input, warnings, err := decode(arguments)
	if err == nil && strings.TrimSpace(input) == "" {
		err = corral.Errorf(corral.ErrInvalid, grammarHint, "Provide a patch input.")
	}
	var sum Summary
	if err == nil {
		var more []string
		sum, more, err = apply(ctx, t.cfg.Target, input, t.cfg.DryRun)
		warnings = append(warnings, more...)
	}
	return t.result(ctx, sum, warnings, err)
}

// apply does the work of Call.
func apply(ctx context.Context, target Target, input string, dryRun bool) (sum Summary, warnings []string, err error) {
	p, err := Parse(input)
	if err != nil {
		return Summary{}, nil, err
	}
	if len(p.Hunks) == 0 {
		return Summary{}, nil, corral.Errorf(corral.ErrInvalid, grammarHint, "No files were modified.")
	}
	ws, err := target.open(ctx)
	if err != nil {
		return Summary{}, nil, err
	}
	defer func() {
		if cerr := ws.close(); cerr != nil {
			warnings = append(warnings, fmt.Sprintf("Cannot let go of the workspace: %v.", cerr))
		}
	}()
	if warnings, err = recoverAll(ctx, ws); err != nil {
		return Summary{}, warnings, err
	}
	pl, err := makePlan(ctx, ws, p)
	if err != nil {
		return Summary{}, warnings, err
	}
	if !dryRun {
		warning, err := pl.commit(ctx)
		if err != nil {
			return Summary{}, warnings, err
		}
		if warning != "" {
			warnings = append(warnings, warning)
		}
	}
	return pl.sum.summary(), warnings, nil
}

func (t *Tool) result(ctx context.Context, sum Summary, warnings []string, err error) Result {
	r := Result{Status: StatusCompleted, Summary: sum, DryRun: t.cfg.DryRun, Warnings: append([]string{}, warnings...)}
	var text strings.Builder
	for _, w := range r.Warnings {
		text.WriteString("Warning: " + w + "\n")
	}
	if err != nil {
		r.Status, r.Reason = outcome(ctx, err)
		r.Summary = (&summing{}).summary()
		r.Error, r.Hint = strings.ReplaceAll(err.Error(), "\n", "; "), corral.Hint(err)
		text.WriteString(r.Error)
		if errors.As(err, &r.Match) {
			r.Hint = r.Match.hint()
			text.WriteString("\n" + r.Match.detail())
		}
		if r.Status != StatusUnknown {
			text.WriteString("\nNo file was changed.")
		}
		if r.Hint != "" {
			text.WriteString(" " + strings.ToUpper(r.Hint[:1]) + r.Hint[1:] + ".")
		}
		r.Message = text.String()
		return r
	}
	text.WriteString("Success. Updated the following files:")
	if t.cfg.DryRun {
		text.Reset()
		text.WriteString("The patch fits. It would update the following files:")
	}
	for _, list := range []struct {
		letter string
		names  []string
	}{{"A", sum.Added}, {"M", sum.Modified}, {"D", sum.Deleted}} {
		for _, name := range list.names {
			text.WriteString("\n" + list.letter + " " + name)
		}
	}
	r.Message = text.String()
	return r
}

func outcome(ctx context.Context, err error) (Status, Reason) {
	switch {
	case errors.Is(err, corral.ErrLost):
		return StatusUnknown, ReasonLost
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Cause(ctx))):
		return StatusFailed, ReasonCancelled
	case errors.Is(err, corral.ErrDenied):
		return StatusDenied, ReasonDenied
	}
	for _, o := range []struct {
		kind   error
		reason Reason
	}{
		{corral.ErrDir, ReasonWorkdir},
		{corral.ErrInvalid, ReasonInvalid},
		{corral.ErrUnavailable, ReasonUnavailable},
		{errors.ErrUnsupported, ReasonUnsupported},
	} {
		if errors.Is(err, o.kind) {
			return StatusFailed, o.reason
		}
	}
	return StatusFailed, ReasonInternal
}

// arguments of the tool.
type arguments struct {
	Input string `json:"input" jsonschema:"The whole patch, from '*** Begin Patch' to '*** End Patch'."`
}

// maxArguments bounds the JSON of a call, in bytes: JSON can encode one byte as six.
const maxArguments = 6*MaxInput + 1<<10

func decode(raw json.RawMessage) (input string, warnings []string, err error) {
	const hint = `give a JSON object with the patch as a string: {"input": "*** Begin Patch\n…"}`
	if len(raw) > maxArguments {
		return "", nil, corral.Errorf(corral.ErrInvalid, "make several patches of it", "the arguments have %d bytes, more than %d", len(raw), maxArguments)
	}
	if text := bytes.TrimSpace(raw); len(text) == 0 || string(text) == "null" {
		return "", nil, nil
	}
	if err := strictjson.Check(raw); err != nil && json.Valid(raw) {
		return "", nil, corral.Errorf(corral.ErrInvalid, hint, "the arguments can be read in two ways: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	var given map[string]json.RawMessage
	if err := dec.Decode(&given); err != nil {
		return "", nil, corral.Errorf(corral.ErrInvalid, hint, "the arguments are no JSON object: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", nil, corral.Errorf(corral.ErrInvalid, hint, "the arguments go on after their end, at byte %d", dec.InputOffset())
	}
	if value, ok := given["input"]; ok {
		if err := json.Unmarshal(value, &input); err != nil {
			return "", nil, corral.Errorf(corral.ErrInvalid, hint, "input: %s is not a string", cut(string(value)))
		}
		delete(given, "input")
	}
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, fmt.Sprintf("%q", cut(name)))
	}
	if len(names) > 0 {
		sort.Strings(names)
		names = names[:min(len(names), 10)]
		warnings = append(warnings, "Only the parameter \"input\" is known; ignored: "+strings.Join(names, ", ")+".")
	}
	return input, warnings, nil
}

// A Definition describes the tool to a model.
type Definition struct {
	Name        string             `json:"name"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	Input       *jsonschema.Schema `json:"inputSchema"`
	Output      *jsonschema.Schema `json:"outputSchema"` // of Result
}

// Definition is the same for every workspace.
func (t *Tool) Definition() Definition {
	in, out := schemaOf[arguments](), schemaOf[Result]()
	in.AdditionalProperties, out.AdditionalProperties = nil, nil
	in.Properties["input"].MinLength = new(1)
	return Definition{Name, "Apply a patch", description, in, out}
}

func schemaOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{})
	if err != nil {
		panic(err) // a type of this package without a schema; a test makes all schemas
	}
	return s
}

const description = `Add, change, move and delete files of the workspace with one patch. All of it is applied, or nothing.

*** Begin Patch
*** Add File: path
+every line of the new file
*** Update File: path
*** Move to: new path (optional)
@@ a line that comes before the change, such as a function's header (optional)
 a line to keep
-a line to remove
+a line to add
*** Delete File: path
*** End Patch

Copy lines to keep and to remove exactly from the file; three around a change are enough. Changes of one file are in the order of the file. '*** End of File' after a change says that it is at the end. Paths are relative to the workspace.`
