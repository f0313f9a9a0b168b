package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/join"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/state/filelock"
	"github.com/corral-exec/corral/internal/state/journal"
)

// A State is the persistent state of a node, in a directory that this program alone has
// open. It is for one goroutine.
type State struct {
	dir    string
	lock   *os.File
	key    nkeys.KeyPair
	public string
	to     gateway
	line   join.Line // of to
}

// gateway is the content of the file about the gateway.
type gateway struct {
	Version int    `json:"version"`
	Line    string `json:"line"`
	Node    string `json:"node"` // the id of the node
	Name    string `json:"name,omitempty"`
	Asked   string `json:"asked,omitempty"` // the name that the machine was told to ask for when it was paired
	// PairedAt is when the machine became its node, and EndedAt when that ended. Both
	// are zero if the machine never was its node.
	PairedAt time.Time `json:"pairedAt,omitzero"`
	EndedAt  time.Time `json:"endedAt,omitzero"`
}

func (g *gateway) paired() bool { return !g.PairedAt.IsZero() && g.EndedAt.IsZero() }

// forget resets the fields of a pairing.
func (g *gateway) forget() { g.Name, g.Asked, g.PairedAt, g.EndedAt = "", "", time.Time{}, time.Time{} }

// stateVersion is the version of the file about the gateway.
const stateVersion = 1

// Open opens a state directory. It creates the directory and the machine's key if
// needed. Close closes it. The error is an ErrConflict if another program has it open.
func Open(dir string, log *slog.Logger) (_ *State, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "use a state directory that can be written", "cannot make the node's state directory: %w", err)
	}
	s := &State{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.lockDir(); err != nil {
		return nil, err
	}
	if err := s.loadKey(); err != nil {
		return nil, err
	}
	return s, s.loadGateway(log)
}

// lockDir locks the directory.
func (s *State) lockDir() error {
	var err error
	if s.lock, err = os.OpenFile(s.path(lockFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return corral.Errorf(corral.ErrUnavailable, "use a state directory that can be written", "cannot lock the node's state directory: %w", err)
	}
	if err = filelock.Own(s.lock); err == nil {
		return nil
	}
	if !errors.Is(err, filelock.ErrLocked) {
		return corral.Errorf(corral.ErrUnavailable, "use a state directory of a file system with locks", "cannot lock the node's state directory %s: %w", s.dir, err)
	}
	who := "another program"
	if r, err := readRecord(s.dir); err == nil && r != nil {
		who = fmt.Sprintf("another program (pid %d)", r.PID)
	}
	return corral.Errorf(corral.ErrConflict, "corral node status says more; stop that one, or use another state directory",
		"%s is the node of the state directory %s", who, s.dir)
}

// Close releases the directory.
func (s *State) Close() error {
	if s.key != nil {
		s.key.Wipe()
	}
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

func (s *State) path(name string) string { return filepath.Join(s.dir, name) }

// Key returns the machine's public key.
func (s *State) Key() string { return s.public }

// ID returns the id of the node that the machine is, or would be.
func (s *State) ID() string { return pairing.ID(s.public) }

// Name returns the name that the gateway gave the machine last; empty if it was never a
// node.
func (s *State) Name() string { return s.to.Name }

// Line returns the line of the gateway.
func (s *State) Line() join.Line { return s.line }

// Paired reports whether the machine was a node at the last answer.
func (s *State) Paired() bool { return s.to.paired() }

// TakesToken reports whether a setup token would be used: only if the machine was never
// a node of the gateway. A revoked machine has to be approved.
func (s *State) TakesToken() bool { return s.to.PairedAt.IsZero() }

// loadKey reads the key, or makes one.
func (s *State) loadKey() error {
	path := s.path(keyFile)
	const hint = "put back a copy of it; or remove it, and the machine is a new node, which has to be approved"
	data, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		if data, err = newSeed(); err == nil {
			err = writePrivate(path, append(data, '\n'), true)
		}
		if err != nil {
			return corral.Errorf(corral.ErrUnavailable, "see whether the disk of the state directory is full", "cannot make the machine's key: %w", err)
		}
	}
	if err != nil {
		return corral.Errorf(corral.ErrDenied, hintOr(err, hint), "cannot read the machine's key: %w", err)
	}
	s.key, s.public, err = parseSeed(data)
	if err != nil {
		// The library's text has no part of the seed.
		return corral.Errorf(corral.ErrDenied, hint, "%s is not the key of a node: %w", path, err)
	}
	return nil
}

func parseSeed(data []byte) (key nkeys.KeyPair, public string, err error) {
	key, err = nkeys.FromSeed([]byte(strings.TrimSpace(string(data))))
	if err == nil {
		public, err = key.PublicKey()
	}
	if err == nil {
		err = pairing.ValidateKey(public)
	}
	return key, public, err
}

func newSeed() ([]byte, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	return key.Seed() // it shares the key's memory, so the key is not wiped
}

func hintOr(err error, otherwise string) string {
	if hint := corral.Hint(err); hint != "" {
		return hint
	}
	return otherwise
}

// loadGateway reads the file about the gateway.
func (s *State) loadGateway(log *slog.Logger) error {
	path := s.path(gatewayFile)
	data, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		s.to, s.line, err = parseGateway(data)
	}
	if err != nil {
		return corral.Errorf(corral.ErrDenied, hintOr(err, "put back a copy of it; or remove it, and give --gateway again"), "cannot use %s: %w", path, err)
	}
	if s.to.Node == s.ID() {
		return nil
	}
	if s.Paired() && log != nil {
		log.Warn("the machine has another key than when it was paired: it is another node now, and has to be approved", "node", s.ID(), "before", s.to.Node)
	}
	s.to.forget()
	return nil
}

func parseGateway(data []byte) (gateway, join.Line, error) {
	var g gateway
	if err := journal.Decode(data, &g); err != nil {
		return gateway{}, join.Line{}, err
	}
	if g.Version != stateVersion {
		return gateway{}, join.Line{}, corral.Errorf(corral.ErrUnavailable, "use the version of Corral that wrote it", "it is of version %d, and this program reads version %d", g.Version, stateVersion)
	}
	line, err := join.ParseLine(g.Line)
	if err != nil {
		return gateway{}, join.Line{}, errors.New(err.Error()) // without the hint, which is for typed lines
	}
	return g, line, nil
}

// Use chooses the gateway by its line; an empty line is the gateway of before. While
// the machine is a node of one gateway, a line with another gateway's key is an
// ErrConflict, unless repair is set. Nothing is written before the machine asks.
func (s *State) Use(line string, repair bool) error {
	if line == "" {
		if s.to.Line == "" {
			return corral.Errorf(corral.ErrInvalid, "run here what corral nodes join prints on the gateway: corral node --gateway LINE",
				"it is not known which gateway this machine is to be a node of")
		}
		return nil
	}
	l, err := join.ParseLine(line)
	if err != nil {
		return err
	}
	same := l.Key == s.line.Key
	if !same && s.Paired() && !repair {
		return corral.Errorf(corral.ErrConflict,
			"leave out --gateway to be the node that it is; give --repair as well to be a node of the other one instead; or another --state-dir to be both",
			"this machine is node %s of the gateway at %s, and --gateway names another one, at %s", s.called(), strings.Join(s.line.Hosts, ", "), strings.Join(l.Hosts, ", "))
	}
	if !same || repair {
		s.to.forget()
	}
	s.line, s.to.Line = l, l.String()
	return nil
}

// called returns the node's name for people.
func (s *State) called() string {
	if s.to.Name != "" {
		return s.to.Name
	}
	return s.ID()
}

// paired records that the machine is a node, with the name from the gateway and the
// name that it asked for.
func (s *State) paired(name, asked string) error {
	if s.Paired() && s.to.Name == name {
		return nil
	}
	if !s.Paired() {
		s.to.PairedAt, s.to.EndedAt, s.to.Asked = now(), time.Time{}, asked
	}
	before := s.to.Name
	s.to.Name = name
	err := s.save()
	if err != nil {
		s.to.Name = before // the next answer has it saved
	}
	return err
}

// ended records that the machine is no node any more.
func (s *State) ended() error {
	s.to.EndedAt = now()
	return s.save()
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// save writes the file about the gateway.
func (s *State) save() error {
	s.to.Version, s.to.Node = stateVersion, s.ID()
	if err := writeJSON(s.path(gatewayFile), s.to, true); err != nil {
		return corral.Errorf(corral.ErrUnavailable, "see whether the disk of the state directory is full", "cannot keep which gateway this machine belongs to: %w", err)
	}
	return nil
}
