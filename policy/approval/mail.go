package approval

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/corral-exec/corral"
)

// The desk of a program without an API, such as a node's, is answered by mail. A letter is
// a file in a directory beside the journal that only its owner can use. The desk writes
// its reply beside the letter.
const (
	mailName   = "mail"
	letterTail = ".letter"
	replyTail  = ".reply"

	mailEvery  = 250 * time.Millisecond
	mailLimit  = 5 * time.Second // longest wait for a reply
	mailAge    = time.Minute     // older files are removed
	maxLetter  = 4 << 10         // bytes
	maxLetters = 64              // read at a time
)

// A letter is an answer to a request, a reply its result.
type letter struct {
	ID string `json:"id"`
	Answer
}

type reply struct {
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Mail answers requests of a desk that another program on this machine has open. Dir is
// the desk's directory.
type Mail struct{ Dir string }

// records are the records of the desk, read from disk.
func (m Mail) records() (map[string]*Record, error) {
	text, err := os.ReadFile(filepath.Join(m.Dir, journalName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, corral.Errorf(corral.ErrUnavailable, "start the program that has them", "there are no approvals in %s", m.Dir)
	}
	if err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "", "cannot read the approvals: %w", err)
	}
	records := map[string]*Record{}
	_, err = replay(text, func(l line) error {
		if l.Record != nil {
			records[l.Record.ID] = l.Record
		}
		return nil
	})
	if err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "", "cannot read the approvals in %s: line %w", m.Dir, err)
	}
	now := time.Now()
	for _, r := range records {
		if (r.State == Pending || r.State == Allowed) && !r.ExpiresAt.After(now) { // expired, but the desk has not written it yet
			r.State = Expired
		}
	}
	return records, nil
}

// List returns the records that a filter selects, the oldest first.
func (m Mail) List(f Filter) ([]Record, error) {
	records, err := m.records()
	return f.of(records), err
}

// Get finds a record as Desk.Get does.
func (m Mail) Get(agent, ref string) (Record, error) {
	records, err := m.records()
	if err != nil {
		return Record{}, err
	}
	return find(records, agent, ref)
}

// Answer sends the desk an answer to a request, by its full ID, as Desk.Answer does, and
// returns the record. If the desk refuses, it returns an ErrDenied. If the desk does not
// reply in five seconds, it returns an ErrUnavailable, and nothing was answered.
func (m Mail) Answer(ctx context.Context, id string, a Answer) (Record, error) {
	a.By = oneLine(a.By, maxWho)
	data, err := json.Marshal(letter{id, a})
	if err != nil {
		return Record{}, err
	}
	dir := filepath.Join(m.Dir, mailName)
	name := filepath.Join(dir, corral.NewID())
	if err = os.WriteFile(name, data, 0o600); err == nil {
		err = os.Rename(name, name+letterTail) // no reader sees half of it
	}
	if err != nil {
		return Record{}, corral.Errorf(corral.ErrUnavailable, "start the program that has the approvals", "cannot leave an answer: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, mailLimit)
	defer cancel()
	tick := time.NewTicker(mailEvery / 4)
	defer tick.Stop()
	for {
		data, err := readSmall(name + replyTail)
		if err == nil {
			return m.replied(id, data, os.Remove(name+replyTail))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return Record{}, corral.Errorf(corral.ErrUnavailable, "", "cannot read the reply: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if os.Remove(name+letterTail) != nil { // the desk has just taken it
				return Record{}, corral.Errorf(corral.ErrLost, "look at the approval", "the answer was taken, and there is no reply")
			}
			return Record{}, corral.Errorf(corral.ErrUnavailable, "start the program that has the approvals", "nobody takes the answer: %w", context.Cause(ctx))
		}
	}
}

func (m Mail) replied(id string, data []byte, removed error) (Record, error) {
	var r reply
	if err := errors.Join(json.Unmarshal(data, &r), removed); err != nil {
		return Record{}, corral.Errorf(corral.ErrLost, "look at the approval", "cannot read the reply: %w", err)
	}
	if r.Error != "" {
		return Record{}, corral.Errorf(corral.ErrDenied, r.Hint, "%s", r.Error)
	}
	records, err := m.records()
	if err != nil {
		return Record{}, err
	}
	if r := records[id]; r != nil {
		return *r, nil
	}
	return Record{}, corral.Errorf(corral.ErrNotFound, "", "the approval %s is forgotten", quote(id))
}

// Collect answers requests by the letters that arrive, until ctx ends.
func (d *Desk) Collect(ctx context.Context) error {
	dir := filepath.Join(d.opts.Dir, mailName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return corral.Errorf(corral.ErrUnavailable, "", "cannot take answers by mail: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory, for its owner alone
		return corral.Errorf(corral.ErrUnavailable, "", "cannot take answers by mail: %w", err)
	}
	tick := time.NewTicker(mailEvery)
	defer tick.Stop()
	failed := false
	for {
		err := d.collect(ctx, dir, time.Now())
		if err != nil && !failed {
			d.opts.Log.Error("cannot take answers by mail", "dir", dir, "error", err)
		}
		failed = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// collect reads the letters that are there now.
func (d *Desk) collect(ctx context.Context, dir string, now time.Time) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxLetters)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > mailAge {
			errs = append(errs, os.Remove(path)) // nobody waits for a reply any more
		} else if base, ok := strings.CutSuffix(path, letterTail); ok {
			errs = append(errs, d.open(ctx, path, base+replyTail))
		}
	}
	return errors.Join(errs...)
}

// open reads a letter, answers its request, and writes the reply.
func (d *Desk) open(ctx context.Context, path, to string) error {
	data, err := readSmall(path)
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	// Remove the letter first: if it stayed, it would be answered twice.
	if err := os.Remove(path); err != nil {
		return err
	}
	var l letter
	if err = json.Unmarshal(data, &l); err == nil {
		_, err = d.Answer(ctx, l.ID, l.Answer)
	}
	var r reply
	if err != nil {
		r = reply{oneLine(err.Error(), 2000), oneLine(corral.Hint(err), 500)}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// readSmall reads a regular file that is no larger than a letter.
func readSmall(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxLetter {
		return nil, errors.New(path + " is no letter")
	}
	return os.ReadFile(path)
}
