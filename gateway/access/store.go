package access

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/time/rate"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/journal"
)

// Bounds.
const (
	maxKeys   = 10_000
	maxFile   = 32 << 20 // bytes
	maxName   = 128      // bytes
	maxAgents = 64
	maxTTL    = 10 * 366 * 24 * time.Hour
	maxRate   = 1e6 // requests a second
	maxCPUs   = 1e6
)

// A Store has the keys of a gateway, in a file: their hashes, not their secrets.
type Store struct {
	path string
	end  context.Context // of all, with Close
	stop context.CancelFunc

	mu   sync.Mutex
	keys map[string]*held
}

type held struct {
	record
	grant *Grant
	end   func(error)
}

// record is a key as the file has it.
type record struct {
	api.Key
	Hash string `json:"hash"` // SHA-256 of the secret, in hexadecimal; secrets have 260 random bits
}

type file struct {
	Version int      `json:"version"`
	Keys    []record `json:"keys"`
}

const version = 1

// Open opens the keys in a file. There need not be one.
func Open(path string) (*Store, error) {
	s := &Store{path: path, keys: map[string]*held{}}
	f, err := read(path)
	if err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "put back a copy, or remove it: keys have to be made anew then", "cannot read the keys in %s: %w", path, err)
	}
	s.end, s.stop = context.WithCancel(context.Background())
	for _, r := range f.Keys {
		s.keys[r.ID] = s.hold(r)
	}
	return s, nil
}

func read(path string) (f file, err error) {
	data, err := content(path)
	if data == nil {
		return f, err
	}
	var entry json.RawMessage
	if err := journal.Unseal(data, &entry); err != nil {
		return f, err
	}
	d := json.NewDecoder(bytes.NewReader(entry))
	d.DisallowUnknownFields() // what is not known might be a limit
	if err := d.Decode(&f); err != nil {
		return f, err
	}
	if f.Version != version {
		return f, fmt.Errorf("it is of version %d, which this program does not know", f.Version)
	}
	for _, r := range f.Keys {
		if err := check(r.Key); err != nil {
			return f, fmt.Errorf("key %.80q: %w", r.ID, err)
		}
	}
	return f, nil
}

// content is what a file has, within bounds; nil: there is no file, or an error.
func content(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Size() > maxFile:
		return nil, fmt.Errorf("it has %d bytes", info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return data, nil
}

func (s *Store) hold(r record) *held {
	g := &Grant{Name: r.Name, ID: r.ID, Role: Role(r.Role), Agents: r.Agents, Hosts: r.Hosts, Quota: r.Quota, expires: r.ExpiresAt}
	if r.Rate > 0 {
		g.rate = rate.NewLimiter(rate.Limit(r.Rate), max(1, int(math.Ceil(r.Rate))))
	}
	alive, end := context.WithCancelCause(s.end)
	g.alive = alive
	if r.ExpiresAt == nil {
		return &held{r, g, end}
	}
	alive, cancel := context.WithDeadlineCause(alive, *r.ExpiresAt, errExpired)
	g.alive = alive
	return &held{r, g, func(err error) {
		end(err)
		cancel()
	}}
}

var (
	errExpired = corral.Errorf(api.ErrUnauthorized, "ask the gateway's operator for another", "the key has expired")
	errRevoked = corral.Errorf(api.ErrUnauthorized, "ask the gateway's operator for another", "the key was revoked")
	errNone    = corral.Errorf(api.ErrUnauthorized, "ask the gateway's operator for another", "the key was revoked, or has expired")
	errWrong   = corral.Errorf(api.ErrUnauthorized, "ask the gateway's operator for another", "the gateway has no such key: it was revoked, or never made here")
	errDamaged = corral.Errorf(api.ErrUnauthorized, "copy it again, whole", "the key is damaged: its checksum is another one")
)

// Close ends what is open by every key. Keys stay.
func (s *Store) Close() { s.stop() }

// A secret is prefix, the key's ID, an underscore, random text, and a dot with the
// checksum of what is before it.
const prefix = "corralkey_"

func newSecret() (id, secret string) {
	id = strings.ToLower(rand.Text()[:12])
	secret = prefix + id + "_" + rand.Text() + rand.Text()
	return id, secret + "." + journal.Sum([]byte(secret))
}

// IsKey reports whether a text was meant to be the secret of a key.
func IsKey(text string) bool { return strings.HasPrefix(text, prefix) }

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// none is compared with where there is no key, so that it takes as long.
var none = hash("")

// Check returns what the bearer of a secret may do.
func (s *Store) Check(secret string) (*Grant, error) {
	body, sum, _ := strings.Cut(secret, ".")
	if journal.Sum([]byte(body)) != sum {
		return nil, errDamaged
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(body, prefix), "_")
	s.mu.Lock()
	k := s.keys[id]
	s.mu.Unlock()
	want := none
	if k != nil {
		want = k.Hash
	}
	if subtle.ConstantTimeCompare([]byte(hash(secret)), []byte(want)) != 1 {
		return nil, errWrong
	}
	if err := k.grant.Ended(); err != nil {
		return nil, err
	}
	return k.grant, nil
}

// List lists the keys, the oldest first.
func (s *Store) List() []api.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]api.Key, 0, len(s.keys))
	for _, k := range s.keys {
		key := k.Key
		if ns := k.grant.used.Load(); ns != 0 {
			at := time.Unix(0, ns).UTC().Truncate(time.Second)
			key.LastUsed = &at
		}
		list = append(list, key)
	}
	slices.SortFunc(list, func(a, b api.Key) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	return list
}

// Create makes a key.
func (s *Store) Create(n api.NewKey) (api.MadeKey, error) {
	id, secret := newSecret()
	now := time.Now().UTC().Truncate(time.Second)
	k := api.Key{
		ID: id, Name: n.Name, Role: n.Role, Agents: append([]string{}, n.Agents...), Hosts: append([]string{}, n.Hosts...),
		Quota: n.Quota, CreatedAt: now,
	}
	if ttl := time.Duration(n.TTL); ttl != 0 {
		if ttl < 0 || ttl > maxTTL {
			return api.MadeKey{}, corral.Errorf(corral.ErrInvalid, "use 1s to 87600h, or leave it out for a key that does not expire", "a key for %v was asked for", ttl)
		}
		at := now.Add(ttl)
		k.ExpiresAt = &at
	}
	if err := check(k); err != nil {
		return api.MadeKey{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys) >= maxKeys {
		return api.MadeKey{}, corral.Errorf(corral.ErrConflict, "revoke some", "there are %d keys, and no more may be", len(s.keys))
	}
	for _, old := range s.keys {
		if old.Name == k.Name {
			return api.MadeKey{}, corral.Errorf(corral.ErrConflict, "rotate it, revoke it, or use another name", "there is a key %q, with the id %s", k.Name, old.ID)
		}
	}
	r := record{k, hash(secret)}
	if err := s.write(r, ""); err != nil {
		return api.MadeKey{}, err
	}
	s.keys[id] = s.hold(r)
	return api.MadeKey{Secret: secret, Key: k}, nil
}

// Revoke ends a key, named by its ID or name, and what is open by it. What runs goes on.
func (s *Store) Revoke(ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.find(ref)
	if err != nil {
		return err
	}
	if err := s.write(record{}, k.ID); err != nil {
		return err
	}
	delete(s.keys, k.ID)
	k.end(errRevoked)
	return nil
}

// Rotate gives a key another secret and ID. The old one ends, and what is open by it.
func (s *Store) Rotate(ref string) (api.MadeKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.find(ref)
	if err != nil {
		return api.MadeKey{}, err
	}
	id, secret := newSecret()
	r := record{k.Key, hash(secret)}
	r.ID = id
	if err := s.write(r, k.ID); err != nil {
		return api.MadeKey{}, err
	}
	delete(s.keys, k.ID)
	s.keys[id] = s.hold(r)
	k.end(errRevoked)
	return api.MadeKey{Secret: secret, Key: r.Key}, nil
}

func (s *Store) find(ref string) (*held, error) {
	if k := s.keys[ref]; k != nil {
		return k, nil
	}
	for _, k := range s.keys {
		if k.Name == ref {
			return k, nil
		}
	}
	return nil, corral.Errorf(corral.ErrNotFound, "see which there are: corral keys ls", "there is no key %.80q", ref)
}

// write writes the file with one key more and one less. mu is held.
func (s *Store) write(add record, without string) error {
	f := file{Version: version, Keys: []record{}}
	for _, k := range s.keys {
		if k.ID != without {
			f.Keys = append(f.Keys, k.record)
		}
	}
	if add.ID != "" {
		f.Keys = append(f.Keys, add)
	}
	slices.SortFunc(f.Keys, func(a, b record) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	data, err := journal.Seal(f)
	if err == nil {
		err = atomicfile.Write(s.path, data, atomicfile.Options{Durable: true})
	}
	if err != nil {
		return corral.Errorf(corral.ErrUnavailable, "see whether the disk is full; nothing was changed", "cannot write the keys to %s: %w", s.path, err)
	}
	return nil
}

func check(k api.Key) error {
	switch {
	case k.Name == "" || len(k.Name) > maxName || strings.ContainsFunc(k.Name, unicode.IsControl), strings.Trim(k.Name, ".") == "", strings.Contains(k.Name, "/"):
		return corral.Errorf(corral.ErrInvalid, "use a text of up to 128 bytes, without a /, that says whose it is", "%.80q is no name of a key", k.Name)
	case k.MaxSessions < 0:
		return corral.Errorf(corral.ErrInvalid, "use 0 for no limit", "a key cannot have %d sessions", k.MaxSessions)
	case k.MaxSandboxes < 0:
		return corral.Errorf(corral.ErrInvalid, "use 0 for no limit", "a key cannot have %d sandboxes", k.MaxSandboxes)
	case k.MaxMemory < 0:
		return corral.Errorf(corral.ErrInvalid, "use bytes, 0 for no limit", "sandboxes of a key cannot have %d bytes of memory", k.MaxMemory)
	case !(k.MaxCPUs >= 0 && k.MaxCPUs <= maxCPUs):
		return corral.Errorf(corral.ErrInvalid, "use processors, 0 for no limit", "sandboxes of a key cannot have %v processors", k.MaxCPUs)
	case !(k.Rate >= 0 && k.Rate <= maxRate):
		return corral.Errorf(corral.ErrInvalid, "use requests a second, 0 for no limit", "%v is no rate of requests", k.Rate)
	case len(k.Agents) > maxAgents:
		return corral.Errorf(corral.ErrInvalid, "use a pattern, such as acme-*", "a key can name %d agents at most", maxAgents)
	}
	if _, err := ParseRole(k.Role); err != nil {
		return err
	}
	for _, p := range k.Agents {
		if _, err := path.Match(p, ""); err != nil || p == "" || len(p) > maxName || strings.ContainsFunc(p, unicode.IsControl) {
			return corral.Errorf(corral.ErrInvalid, "use names of agents, or patterns such as acme-*", "%.80q is no pattern of agents", p)
		}
	}
	for _, h := range k.Hosts {
		if !slices.Contains([]corral.Host{corral.HostSandbox, corral.HostGateway, corral.HostNode}, corral.Host(h)) {
			return corral.Errorf(corral.ErrInvalid, "use sandbox, gateway or node", "there is no host %.80q", h)
		}
	}
	return nil
}
