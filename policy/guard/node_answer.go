package guard

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

// Bounds of a node's answer, in bytes.
const (
	maxAnswer   = 48 << 10
	maxBinding  = 16 << 10
	maxText     = 4 << 10 // of each text in it
	maxPinned   = 4 << 10
	maxPath     = 1 << 10
	maxSegments = 256
)

// An answer is a node's reply to a gateway about a command: the decision, how the command
// would be read on the node, and the binding for an approval.
type answer struct {
	Decision policy.Decision `json:"decision"`

	Shell []string `json:"shell,omitempty"`
	Dir   string   `json:"cwd,omitempty"`
	Path  string   `json:"path,omitempty"`
	Home  string   `json:"home,omitempty"`

	// Sum is the digest of the binding on the node. Unbound says why there is no
	// binding; the command then cannot be approved.
	Binding approval.Binding `json:"binding,omitzero"`
	Sum     string           `json:"sum,omitempty"`
	Unbound string           `json:"unbound,omitempty"`

	// Previews are what allow-always would remember on the node.
	Previews []approval.Preview `json:"previews,omitempty"`
	// Local: only the node's own operators approve.
	Local bool `json:"local,omitempty"`
	// Sandboxed: it would run in a sandbox on the node.
	Sandboxed bool `json:"sandboxed,omitempty"`
	// Own is the node's own strictness, if the gateway made it stricter.
	Own *strictnessOf `json:"own,omitempty"`
	// Omitted is the number of segments that Decision leaves out.
	Omitted  int      `json:"omitted,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// strictnessOf is the strictness of one side: gateway or node.
type strictnessOf struct {
	Security policy.Setting[policy.Security] `json:"security"`
	Ask      policy.Setting[policy.Ask]      `json:"ask"`
}

// encode encodes the answer in at most maxAnswer bytes. For a long command it leaves out
// segments.
func (a answer) encode() ([]byte, error) {
	if b, err := json.Marshal(a.Binding); err != nil || len(b) > maxBinding {
		a.Binding, a.Sum = approval.Binding{}, ""
		a.Unbound = fmt.Sprintf("it runs %d programs, which is too much to be approved from afar; put it into a script", len(a.Decision.Segments))
	}
	a.Decision.Segments = slices.Clone(a.Decision.Segments)
	if n := len(a.Decision.Segments); n > maxSegments {
		a.omit(maxSegments)
	}
	if run := a.Decision.Run; run != nil && len(strings.Join(run.Args, " ")) > maxPinned {
		a.Decision.Run = nil
	}
	a.Decision.Variables = a.Decision.Variables[:min(len(a.Decision.Variables), 64)]
	a.Decision.Findings = a.Decision.Findings[:min(len(a.Decision.Findings), 16)]
	a.Warnings = a.Warnings[:min(len(a.Warnings), 16)]
	for {
		b, err := json.Marshal(a)
		if err != nil || len(b) <= maxAnswer {
			return b, err
		}
		switch n := len(a.Decision.Segments); {
		case n > 0:
			a.omit(n / 2)
		case len(a.Decision.Findings) > 0 || len(a.Warnings) > 0 || len(a.Decision.Fix) > 0:
			a.Decision.Variables = nil
			a.Decision.Findings, a.Warnings, a.Decision.Fix = nil, nil, nil
		case a.Decision.Enforce != nil: // what the kernel is to enforce is for the node alone
			a.Decision.Enforce = nil
		case len(a.Previews) > 0:
			a.Previews = nil
		default:
			return nil, fmt.Errorf("the decision has %d bytes, more than %d", len(b), maxAnswer)
		}
	}
}

func (a *answer) omit(keep int) {
	a.Omitted += len(a.Decision.Segments) - keep
	a.Decision.Segments = a.Decision.Segments[:keep]
}

// parseAnswer parses the answer of the node of that name. The answer is the node's claim:
// every text in it is bounded and made one line, and every source is marked as the node's.
func parseAnswer(node string, b []byte) (answer, error) {
	var a answer
	bad := func(format string, args ...any) (answer, error) {
		return answer{}, corral.Errorf(corral.ErrUnavailable, "upgrade Corral on the node, or look into it",
			"what node %s decides cannot be understood: %w", node, fmt.Errorf(format, args...))
	}
	if len(b) > maxAnswer {
		return bad("it has %d bytes", len(b))
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return bad("%w", err)
	}
	plain(reflect.ValueOf(&a).Elem(), node)
	d := &a.Decision
	switch d.Outcome {
	case policy.Allowed, policy.Asked, policy.Denied:
	default:
		return bad("%q is no decision", d.Outcome)
	}
	if d.Fallback != policy.Allowed {
		d.Fallback = policy.Denied
	}
	if !d.Security.Value.Valid() {
		d.Security.Value = policy.SecurityDeny
	}
	if !d.Ask.Value.Valid() {
		d.Ask.Value = policy.AskAlways
	}
	if a.Dir != "" && !path.IsAbs(a.Dir) {
		return bad("its working directory is %q", a.Dir)
	}
	if d.Outcome != policy.Allowed && d.Reason == "" {
		d.Reason = "it gives no reason"
	}
	d.Reason = "on node " + node + ": " + d.Reason
	for i := range d.Fix {
		d.Fix[i] = "on node " + node + ": " + d.Fix[i]
	}
	if d.Segments == nil {
		d.Segments = []policy.Segment{}
	}
	for i := range a.Warnings {
		a.Warnings[i] = "Node " + node + " says: " + a.Warnings[i]
	}
	if a.Omitted > 0 {
		a.Warnings = append(a.Warnings, fmt.Sprintf("Node %s leaves out %d further programs of the command.", node, a.Omitted))
	}
	if !scopesAll(a.Previews) {
		a.Previews = unavailable("the node does not say what it would remember")
	}
	return a, nil
}

// scopesAll reports whether there is one preview for every scope.
func scopesAll(list []approval.Preview) bool {
	if len(list) != len(approval.Scopes) {
		return false
	}
	for i, p := range list {
		if p.Scope != approval.Scopes[i] || (p.Unavailable == "") != (len(p.Entries) > 0) {
			return false
		}
	}
	return true
}

// unavailable are the previews of a command for which nothing can be remembered.
func unavailable(why string) []approval.Preview {
	list := make([]approval.Preview, len(approval.Scopes))
	for i, scope := range approval.Scopes {
		list[i] = approval.Preview{Scope: scope, Unavailable: why}
	}
	return list
}

// fromGateway is the source of settings that a node got from its gateway.
const fromGateway = "the gateway"

// plain makes every text in v valid, one line and not too long, and marks every source
// as one on the node.
func plain(v reflect.Value, node string) {
	switch v.Kind() {
	case reflect.String:
		text := v.String()
		if len(text) > maxText {
			text = text[:maxText] + "…"
		}
		v.SetString(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, strings.ToValidUTF8(text, "�")))
	case reflect.Pointer:
		if !v.IsNil() {
			plain(v.Elem(), node)
		}
	case reflect.Slice:
		for i := range v.Len() {
			plain(v.Index(i), node)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				plain(f, node)
			}
		}
		if s, ok := v.Addr().Interface().(*policy.Source); ok {
			switch {
			case s.File != "":
				s.File = "node " + node + ":" + s.File
			case s.Name != "" && s.Name != fromGateway:
				s.Name = "node " + node + ": " + s.Name
			}
		}
	}
}

// files is the file system of a node as its answer describes it: the programs that the
// node found.
func (a *answer) files() policy.View {
	found := claimed{}
	for _, s := range a.Decision.Segments {
		if path.IsAbs(s.Path) && len(s.Path) <= maxPath {
			found[s.Path] = s.Path
			if path.IsAbs(s.RealPath) {
				found[s.Path] = s.RealPath
			}
		}
	}
	return found
}

// claimed is a View of the programs that a node claims to have: for each path, the path
// without symbolic links.
type claimed map[string]string

// Stat implements policy.View.
func (c claimed) Stat(name string) (fs.FileInfo, error) {
	if _, ok := c[name]; !ok {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return program(path.Base(name)), nil
}

// RealPath implements policy.View.
func (c claimed) RealPath(name string) (string, error) {
	if real, ok := c[name]; ok {
		return real, nil
	}
	return "", &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
}

// Executable implements policy.View.
func (c claimed) Executable(name string) error {
	_, err := c.Stat(name)
	return err
}

// Open implements policy.View.
func (c claimed) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// program is the FileInfo of a claimed program; nothing else is known about the file.
type program string

func (p program) Name() string     { return string(p) }
func (program) Size() int64        { return 0 }
func (program) Mode() fs.FileMode  { return 0o755 }
func (program) ModTime() time.Time { return time.Time{} }
func (program) IsDir() bool        { return false }
func (program) Sys() any           { return nil }
