// Package archives keeps what clients of E2B send to be copied into templates.
package archives

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
)

const (
	maxArchive = 1 << 30 // bytes of one
	maxKept    = 4 << 30 // bytes of all, with what is being sent
	maxSending = 2 << 30 // bytes of those that are being sent for an agent
	step       = 1 << 20 // bytes for which room is made at a time
	least      = 1 << 16 // bytes that an archive counts for, so that there are not too many
)

// A Store has archives of agents, by the hash that the client has for them. To new ones the
// oldest give way, of the agent that has most. It may be used from any goroutine.
type Store struct {
	dir     string
	mu      sync.Mutex       // held while files come and go
	kept    int64            // bytes of archives, or more: room counts them
	sending map[string]int64 // bytes that have room of what is being sent, by agent
}

// Open opens those in a directory, which need not exist. It removes what was not sent as a
// whole.
func Open(dir string) (*Store, error) {
	left, err := filepath.Glob(filepath.Join(dir, "*.part"))
	for _, file := range left {
		err = errors.Join(err, os.Remove(file))
	}
	return &Store{dir: dir, kept: maxKept, sending: map[string]int64{}}, err
}

// File is where an agent's archive is, if it is there. Another agent's is another file: a
// hash is only what a client says.
func (s *Store) File(agent, hash string) string {
	of := func(name string) string {
		sum := sha256.Sum256([]byte(name))
		return hex.EncodeToString(sum[:16])
	}
	return filepath.Join(s.dir, of(agent)+"-"+of(hash)+".tar")
}

// Has reports whether an agent's archive is there.
func (s *Store) Has(agent, hash string) bool {
	_, err := os.Stat(s.File(agent, hash))
	return err == nil
}

// Put keeps an archive of an agent, which is there when it has been sent as a whole.
func (s *Store) Put(agent, hash string, from io.Reader) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, "*.part")
	if err != nil {
		return err
	}
	n, taken, err := s.receive(agent, f, from)
	err = errors.Join(err, f.Close())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sending[agent] -= taken; s.sending[agent] == 0 {
		delete(s.sending, agent)
	}
	if err == nil {
		err = os.Rename(f.Name(), s.File(agent, hash))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	s.kept += counts(n)
	return nil
}

// receive writes the n bytes of an archive, for which room was taken.
func (s *Store) receive(agent string, to io.Writer, from io.Reader) (n, taken int64, err error) {
	for n <= maxArchive {
		if err := s.take(agent, step); err != nil {
			return n, taken, err
		}
		taken += step
		m, err := io.CopyN(to, from, step)
		n += m
		if err == io.EOF { // and no error that has one in it: such an archive was cut
			return n, taken, nil
		}
		if err != nil {
			return n, taken, err
		}
	}
	return n, taken, corral.Errorf(corral.ErrInvalid, "copy less at a time", "the archive has more than %d bytes", maxArchive)
}

// take makes room for n more bytes of what is being sent for an agent.
func (s *Store) take(agent string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := n
	for _, m := range s.sending {
		all += m
	}
	if s.sending[agent]+n > maxSending || all > maxKept {
		return corral.Errorf(api.ErrTooMany, "send it again when others have been sent", "archives of %d MiB are being sent, of these %d MiB for the agent %s, and no more may be at a time", (all-n)>>20, s.sending[agent]>>20, agent)
	}
	if s.kept+all > maxKept {
		if err := s.room(all); err != nil {
			return err
		}
	}
	s.sending[agent] += n
	return nil
}

// room removes archives until n bytes may be beside them: each time the oldest of the agent
// that has most. mu is held.
func (s *Store) room(n int64) error {
	list, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	files, of := map[string][]fs.FileInfo{}, map[string]int64{} // by agent, as File has it
	s.kept = 0
	for _, e := range list {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".tar") {
			agent, _, _ := strings.Cut(e.Name(), "-")
			files[agent] = append(files[agent], info)
			of[agent] += counts(info.Size())
			s.kept += counts(info.Size())
		}
	}
	for _, own := range files {
		slices.SortFunc(own, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	}
	for s.kept+n > maxKept && len(files) > 0 {
		most := slices.MaxFunc(slices.Collect(maps.Keys(files)), func(a, b string) int { return cmp.Compare(of[a], of[b]) })
		info := files[most][0]
		if err := os.Remove(filepath.Join(s.dir, info.Name())); err != nil {
			return err
		}
		s.kept -= counts(info.Size())
		of[most] -= counts(info.Size())
		if files[most] = files[most][1:]; len(files[most]) == 0 {
			delete(files, most)
		}
	}
	return nil
}

// counts is how much of maxKept an archive of n bytes takes.
func counts(n int64) int64 { return max(n, least) }
