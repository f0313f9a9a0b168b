package approval

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// A File is the rules of a host, in a file that is for its owner alone. Its
// methods may be called at any time, and by several processes with the same
// file.
type File struct {
	where func() string
	log   *slog.Logger

	mu     sync.Mutex
	of     string    // the path from which cached and err were read
	cached *document // nil: there is no file
	err    error     // why the file cannot be used
	id     fileID    // identity of the file that was read
	sure   bool      // a change since would have changed id

	uses  map[string]use // by the entry's fingerprint; not yet written
	timer *time.Timer    // to write them
	shut  bool

	flushing sync.Mutex // before mu
}

// NewFile returns the file at a path, which need not exist. It reads nothing yet. Close
// writes the last uses of its rules.
func NewFile(path string, log *slog.Logger) (*File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "", "cannot tell where the file of approvals is: %w", err)
	}
	return FollowFile(func() string { return path }, log), nil
}

// FollowFile is NewFile for a file whose path can change: each use calls where for the
// absolute path.
func FollowFile(where func() string, log *slog.Logger) *File {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &File{where: where, log: log, uses: map[string]use{}}
}

// Path is where the file is now.
func (f *File) Path() string { return f.where() }

// A Host is the settings and rules of a host's file for an agent.
type Host struct {
	Settings
	Rules    []policy.Rule
	Warnings []string // about entries that allow nothing
}

// closed is the Host that applies while the file cannot be understood.
func closed(err error) Host {
	source := policy.Source{Name: err.Error(), Fix: corral.Hint(err)}
	return Host{Settings: Settings{
		Security:    policy.Setting[policy.Security]{Value: policy.SecurityDeny, Source: source},
		Ask:         policy.Setting[policy.Ask]{Value: policy.AskAlways, Source: source},
		AskFallback: policy.Setting[policy.Security]{Value: policy.SecurityDeny, Source: source},
	}}
}

// Rules returns the file's settings and rules for an agent ("": main); the zero Host if
// there is no file. If the file cannot be used, it returns an ErrDenied with a *FileError,
// and the Host that applies until the file is mended: nothing is allowed.
func (f *File) Rules(agent string) (Host, error) {
	d, err := f.load()
	if err != nil {
		return closed(err), err
	}
	if d == nil {
		return Host{}, nil
	}
	return d.host(agent), nil
}

// host is the Host of an agent. Each setting comes from the first of these that has it:
// the agent, "*", the defaults. The rules of all of them apply.
func (d *document) host(agent string) Host {
	agent = mainAgent(agent)
	h := Host{Warnings: slices.Clone(d.warnings)}
	parts := []part{d.agents[agent], d.agents["*"], d.defaults}
	if agent == "*" {
		parts = parts[1:]
	}
	for _, p := range parts {
		h.Security = cmp.Or(h.Security, p.settings.Security)
		h.Ask = cmp.Or(h.Ask, p.settings.Ask)
		h.AskFallback = cmp.Or(h.AskFallback, p.settings.AskFallback)
	}
	for _, p := range slices.Backward(parts) {
		for _, e := range p.entries {
			h.Rules = append(h.Rules, e.rule)
		}
	}
	return h
}

func mainAgent(agent string) string {
	if agent == "" || agent == "default" {
		return "main"
	}
	return agent
}

// load returns the document, and reads the file again if it was changed; nil if there is
// no file.
func (f *File) load() (*document, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := f.Path()
	if path != f.of {
		f.of, f.sure = path, false
	}
	id, err := statFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, f.unreadable(err)
	}
	if f.sure && id == f.id {
		return f.cached, f.err
	}
	f.cached, f.id, f.sure, f.err = f.fresh(path)
	return f.cached, f.err
}

// fresh reads the file as it is now.
func (f *File) fresh(path string) (_ *document, _ fileID, sure bool, _ error) {
	now := time.Now()
	text, id, err := readFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, id, false, nil
	case err != nil:
		return nil, id, false, f.unreadable(err)
	}
	d, err := read(path, text)
	return d, id, id.settled(now), err
}

func (f *File) unreadable(err error) error {
	if _, known := errors.AsType[*corral.Error](err); known {
		return err
	}
	return corral.Errorf(corral.ErrDenied, "see to it that the file can be read: nothing is allowed until then", "%w",
		&FileError{File: f.Path(), Text: "cannot read the file of approvals: " + err.Error()})
}

// Digest returns the SHA-256 of the file as it is now, in hex; empty if there is no file.
func (f *File) Digest() (string, error) {
	text, _, err := readFile(f.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", f.unreadable(err)
	}
	return digest(text), nil
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Get returns the document without its secrets, and the digest for Set; both are empty if
// there is no file.
func (f *File) Get() (text []byte, digestNow string, err error) {
	path := f.Path()
	raw, _, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", f.unreadable(err)
	}
	d, err := read(path, raw)
	if err != nil {
		return nil, "", err
	}
	d.root.remove("socket")
	return d.root.encode(), digest(raw), nil
}

// Set replaces the document if it still has the digest that Get returned; otherwise it
// returns an ErrConflict. If the new document is invalid, it returns an ErrInvalid. An
// invalid old document is replaced too.
func (f *File) Set(text []byte, was string) error {
	d, err := read("the document", text)
	if err != nil {
		at, _ := errors.AsType[*FileError](err)
		return corral.Errorf(corral.ErrInvalid, "correct it and try again", "%w", at)
	}
	return f.locked(func(path string) error {
		raw, id, err := readFile(path)
		now := ""
		switch {
		case err == nil:
			now = digest(raw)
		case !errors.Is(err, fs.ErrNotExist):
			return f.unreadable(err)
		}
		if now != was {
			return corral.Errorf(corral.ErrConflict, "get the document again and repeat the change", "the exec approvals were changed since they were read")
		}
		if old, err := parse(path, raw); err == nil && old.get("socket") != nil && d.root.get("socket") == nil {
			d.root.set("socket", old.get("socket"))
		}
		return writeFile(path, d.root.encode(), id)
	})
}

// CheckRule says why a rule cannot be added.
func CheckRule(r policy.Rule) error {
	err := usable(r)
	if err == nil && Pathless(r) {
		err = errors.New(pathlessText)
	}
	if err != nil {
		return corral.Errorf(corral.ErrInvalid, "", "cannot add the rule %s: %w", quote(r.Pattern+r.Command), err)
	}
	return nil
}

// Add adds rules of an agent ("": main; "*": all), each to the list of its action, unless
// the list has it. Scope is that of an AllowAlways; empty for rules that were not made from
// a command.
func (f *File) Add(agent string, scope Scope, rules ...policy.Rule) error {
	for _, r := range rules {
		if err := CheckRule(r); err != nil {
			return err
		}
	}
	return f.edit(func(d *document) error {
		for _, r := range rules {
			list, err := d.listOf(mainAgent(agent), r.Action)
			if err != nil {
				return err
			}
			same := func(n *node) bool {
				there, err := rule(n)
				return err == nil && fingerprint(there) == fingerprint(r)
			}
			if !slices.ContainsFunc(list.items, same) {
				list.items = append(list.items, newEntry(r, scope))
			}
		}
		return nil
	})
}

// Means reports whether ref, which is an ID, a pattern or a command, names a rule.
func Means(ref string, r policy.Rule) bool {
	return ref != "" && (r.ID == ref || r.Pattern == ref || r.Command == ref)
}

// Remove removes an agent's rules of an action with this ID or pattern, and returns how
// many it removed.
func (f *File) Remove(agent string, action policy.Action, ref string) (removed int, err error) {
	err = f.edit(func(d *document) error {
		list, err := d.listOf(mainAgent(agent), action)
		if err != nil {
			return err
		}
		before := len(list.items)
		list.items = slices.DeleteFunc(list.items, func(n *node) bool {
			r, err := rule(n)
			return err == nil && Means(ref, r)
		})
		if removed = before - len(list.items); removed == 0 {
			return errSame // no list is added either
		}
		return nil
	})
	return removed, err
}

// edit changes the document and writes it, under the file's lock. If change returns
// errSame, nothing is written.
func (f *File) edit(change func(*document) error) error {
	return f.locked(func(path string) error {
		d, id, _, err := f.fresh(path)
		if err != nil {
			return err
		}
		if d == nil {
			if d, err = read(path, []byte(`{"version": 1}`)); err != nil {
				return err
			}
			d.text = nil
		}
		if err := change(d); errors.Is(err, errSame) {
			return nil
		} else if err != nil {
			return err
		}
		text := d.root.encode()
		if _, err := read(path, text); err != nil {
			return err
		}
		if bytes.Equal(text, d.text) {
			return nil
		}
		return writeFile(path, text, id)
	})
}

// listOf returns the list of an agent's rules of an action; it makes a missing one.
func (d *document) listOf(agent string, action policy.Action) (*node, error) {
	if err := validAgent(agent); err != nil {
		return nil, err
	}
	object := func(n *node, name string) *node {
		v := n.get(name)
		if v.null() {
			v = newObject()
			n.set(name, v)
		}
		return v
	}
	p := object(object(d.root, "agents"), agent)
	i := slices.IndexFunc(lists, func(l ruleList) bool { return l.action == action })
	if i < 0 {
		return nil, corral.Errorf(corral.ErrInvalid, "use allow, ask or deny", "%s is no action", quote(string(action)))
	}
	list := p.get(lists[i].name)
	if !list.isArray() { // null, or a value that is no list and allows nothing
		list = newArray()
		p.set(lists[i].name, list)
	}
	return list, nil
}

func validAgent(agent string) error {
	if agent == "*" {
		return nil
	}
	if err := corral.ValidateID(agent); err != nil {
		return corral.Errorf(corral.ErrInvalid, "use 1 to 64 letters, digits, '.', '_' or '-'; or * for all", "%s cannot be an agent", quote(agent))
	}
	return nil
}

// newEntry makes an entry for a rule. For an exact command it has only the digest.
func newEntry(r policy.Rule, scope Scope) *node {
	n := newObject()
	text := func(name, s string) {
		if s != "" {
			n.set(name, newNode(s))
		}
	}
	text("id", cmp.Or(r.ID, corral.NewID()))
	if r.Command != "" {
		text("pattern", commandPattern(r.Command))
	}
	text("pattern", r.Pattern)
	if r.Args != nil {
		n.set("args", newNode(r.Args))
	}
	text("argPattern", r.ArgPattern)
	text("sha256", r.SHA256)
	if r.Env != nil {
		n.set("env", newNode(r.Env))
	}
	text("reason", r.Reason)
	if scope != "" {
		text("source", string(AllowAlways))
		text("scope", string(scope))
	}
	n.set("createdAt", newNode(time.Now().UnixMilli()))
	return n
}
