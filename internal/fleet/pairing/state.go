package pairing

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/journal"
)

// Bounds of the stored data.
const (
	stateVersion = 1
	maxNodes     = 8192
	maxTokens    = 1024
	maxText      = 255 // bytes
	maxFeatures  = 64
	maxSeen      = 8  // addresses of a node
	maxClaimed   = 16 // addresses in a Hello
	maxLabels    = 16
	maxHello     = 4096 // bytes of all its text
)

// A Node is an approved key.
type Node struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Key  string `json:"key"`

	Labels map[string]string `json:"labels,omitempty"`

	// Addresses are those that the gateway saw, the latest first.
	Addresses []string `json:"addresses,omitempty"`

	// The node's description of itself.
	OS       string   `json:"os,omitempty"`
	Arch     string   `json:"arch,omitempty"`
	Version  string   `json:"version,omitempty"`
	Features []string `json:"features,omitempty"`

	PairedAt   time.Time `json:"pairedAt"`
	ApprovedBy string    `json:"approvedBy"` // who, or "token ID of WHO"

	RevokedAt time.Time `json:"revokedAt,omitzero"` // zero: it is active
	RevokedBy string    `json:"revokedBy,omitempty"`
}

func (n *Node) active() bool { return n.RevokedAt.IsZero() }

// clone returns a deep copy.
func (n *Node) clone() Node {
	c := *n
	c.Labels, c.Addresses, c.Features = maps.Clone(n.Labels), slices.Clone(n.Addresses), slices.Clone(n.Features)
	return c
}

// A Token is the record of a setup token.
type Token struct {
	ID        string            `json:"id"`
	Hash      string            `json:"sha256,omitempty"` // of the token, in hex; never shown, as it can replace the token
	Left      int               `json:"left"`             // uses
	Labels    map[string]string `json:"labels,omitempty"`
	By        string            `json:"by"`
	CreatedAt time.Time         `json:"createdAt"`
	ExpiresAt time.Time         `json:"expiresAt"`
}

// A Hello is a node's description of itself.
type Hello struct {
	Name              string
	OS, Arch, Version string
	Addresses         []string
	Features          []string
}

// validate bounds the values, which any sender can send, and refuses text that would
// change what a terminal shows.
func (h Hello) validate() error {
	for _, f := range []struct{ what, text string }{{"name", h.Name}, {"os", h.OS}, {"arch", h.Arch}, {"version", h.Version}} {
		if !printable(f.text) {
			return invalidHello("the %s is %s", f.what, quote(f.text))
		}
	}
	if len(h.Features) > maxFeatures || slices.ContainsFunc(h.Features, func(s string) bool { return !printable(s) }) {
		return invalidHello("the features cannot be used")
	}
	size := len(h.Name) + len(h.OS) + len(h.Arch) + len(h.Version) + len(strings.Join(h.Features, "")) + len(strings.Join(h.Addresses, ""))
	if size > maxHello {
		return invalidHello("it has %d bytes, of at most %d", size, maxHello)
	}
	if len(h.Addresses) > maxClaimed {
		return invalidHello("it has %d addresses, of at most %d", len(h.Addresses), maxClaimed)
	}
	for _, a := range h.Addresses {
		if addr, err := netip.ParseAddr(a); err != nil || !printable(a) || addr.Zone() != "" {
			return invalidHello("%s is no address", quote(a))
		}
	}
	return nil
}

func invalidHello(format string, args ...any) error {
	return corral.Errorf(corral.ErrInvalid, fmt.Sprintf("use printable text of at most %d bytes", maxText),
		"cannot take what the node says of itself: %s", fmt.Sprintf(format, args...))
}

func printable(s string) bool {
	return len(s) <= maxText && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func validateLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return corral.Errorf(corral.ErrInvalid, "", "there are %d labels, of at most %d", len(labels), maxLabels)
	}
	for k, v := range labels {
		if k == "" || len(k) > maxName || strings.ContainsFunc(k, func(r rune) bool { return !nameRune(unicode.ToLower(r)) && r != '/' }) || !printable(v) {
			return corral.Errorf(corral.ErrInvalid, "use letters, digits, '.', '_', '-' and '/' in the key, and printable text as the value", "%s=%s is no label", quote(k), quote(v))
		}
	}
	return nil
}

// state is the stored state. Once in use it is replaced and never modified; so are its
// nodes and tokens.
type state struct {
	nodes  map[string]*Node  // by id
	active map[string]string // ids of nodes that are not revoked, by key
	tokens map[string]*Token // by id

	rejected map[string]*rejection // by key; some may have expired
}

func newState() *state {
	return &state{nodes: map[string]*Node{}, active: map[string]string{}, tokens: map[string]*Token{}, rejected: map[string]*rejection{}}
}

func (s *state) clone() *state {
	return &state{nodes: maps.Clone(s.nodes), active: maps.Clone(s.active), tokens: maps.Clone(s.tokens), rejected: maps.Clone(s.rejected)}
}

// put adds or replaces a node.
func (s *state) put(n *Node) {
	s.nodes[n.ID] = n
	if n.active() {
		s.active[n.Key] = n.ID
	} else {
		delete(s.active, n.Key)
	}
}

// header is the first entry of a file.
type header struct {
	Version int `json:"version"`
	Nodes   int `json:"nodes"`
	Tokens  int `json:"tokens"`

	Rejected int `json:"rejected,omitempty"`
}

// unseal reads a line. It must be exactly what journal.Seal would write for the entry.
func unseal(line []byte, entry any) error {
	if err := journal.Unseal(line, entry); err != nil {
		return err
	}
	again, err := journal.Seal(entry)
	if err == nil && !bytes.Equal(again, append(bytes.Clone(line), '\n')) {
		err = errors.New("it was edited")
	}
	return err
}

// encode writes a file.
func (s *state) encode() ([]byte, error) {
	var b bytes.Buffer
	add := func(entry any) error {
		line, err := journal.Seal(entry)
		b.Write(line)
		return err
	}
	err := add(header{stateVersion, len(s.nodes), len(s.tokens), len(s.rejected)})
	for _, id := range slices.Sorted(maps.Keys(s.nodes)) {
		err = cmp.Or(err, add(s.nodes[id]))
	}
	for _, id := range slices.Sorted(maps.Keys(s.tokens)) {
		err = cmp.Or(err, add(s.tokens[id]))
	}
	for _, key := range slices.Sorted(maps.Keys(s.rejected)) {
		err = cmp.Or(err, add(s.rejected[key]))
	}
	return b.Bytes(), err
}

// parse reads a file that encode wrote; an error begins with the number of the
// line.
func parse(text []byte) (*state, error) {
	s := newState()
	var h header
	last, names := "", map[string]bool{}
	at, number := 0, 1
	fail := func(err error) (*state, error) {
		return nil, fmt.Errorf("%d (byte %d): %w", number, at, err)
	}
	for ; number <= 1+h.Nodes+h.Tokens+h.Rejected; number++ {
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			return fail(errors.New("the file was cut short"))
		}
		line := text[at : at+end]
		var err error
		switch {
		case number == 1:
			err = unseal(line, &h)
			switch {
			case err == nil && h.Version != stateVersion:
				err = fmt.Errorf("it has version %d; this program knows %d", h.Version, stateVersion)
			case err == nil && (h.Nodes < 0 || h.Nodes > maxNodes || h.Tokens < 0 || h.Tokens > maxTokens || h.Rejected < 0 || h.Rejected > maxRejections):
				err = fmt.Errorf("it announces %d nodes, %d tokens and %d rejections", h.Nodes, h.Tokens, h.Rejected)
			}
		case number <= 1+h.Nodes:
			var n Node
			if err = unseal(line, &n); err == nil {
				err = n.check(last, names)
			}
			last = n.ID
			s.put(&n)
		case number <= 1+h.Nodes+h.Tokens:
			if number == 2+h.Nodes {
				last = ""
			}
			var t Token
			if err = unseal(line, &t); err == nil {
				err = t.check(last)
			}
			last = t.ID
			s.tokens[t.ID] = &t
		default:
			if number == 2+h.Nodes+h.Tokens {
				last = ""
			}
			var x rejection
			if err = unseal(line, &x); err == nil {
				err = x.check(last)
			}
			last = x.Key
			s.rejected[x.Key] = &x
		}
		if err != nil {
			return fail(fmt.Errorf("the line is not as it was written: %w", err))
		}
		at += end + 1
	}
	if at < len(text) {
		return fail(errors.New("there is more than was written"))
	}
	return s, nil
}

// check returns an error if n cannot follow the entry last in a file.
func (n *Node) check(last string, names map[string]bool) error {
	if err := ValidateKey(n.Key); err != nil {
		return err
	}
	if n.ID != ID(n.Key) || n.ID <= last {
		return fmt.Errorf("node %s cannot be here", quote(n.ID))
	}
	if err := validateName(n.Name); err != nil {
		return err
	}
	if n.active() && names[n.Name] {
		return fmt.Errorf("another node has the name %s", n.Name)
	}
	names[n.Name] = names[n.Name] || n.active()
	if len(n.Addresses) > maxSeen || n.PairedAt.IsZero() {
		return fmt.Errorf("node %s is not as one is", n.ID)
	}
	hello, seen := Hello{OS: n.OS, Arch: n.Arch, Version: n.Version, Features: n.Features}, Hello{Addresses: n.Addresses}
	return cmp.Or(hello.validate(), seen.validate(), validateLabels(n.Labels), validateWho(n.ApprovedBy), validateWho(n.RevokedBy))
}

// check returns an error if t cannot follow the entry last in a file.
func (t *Token) check(last string) error {
	if len(t.ID) != tokenIDLength || !onlyReadable(t.ID) || t.ID <= last || len(t.Hash) != 64 ||
		t.Left < 1 || t.Left > MaxUses || t.CreatedAt.IsZero() || !t.ExpiresAt.After(t.CreatedAt) {
		return fmt.Errorf("token %s is not as one is", quote(t.ID))
	}
	return cmp.Or(validateLabels(t.Labels), validateWho(t.By))
}

func validateWho(who string) error {
	if !printable(who) {
		return corral.Errorf(corral.ErrInvalid, fmt.Sprintf("use printable text of at most %d bytes", maxText), "%s cannot be who answers", quote(who))
	}
	return nil
}
