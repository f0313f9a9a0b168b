package streamexec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/journal"
	"github.com/corral-exec/corral/internal/warden/outlog"
)

// record is the content of ID.json.
type record struct {
	Info   corral.Info     `json:"info"`
	Limit  corral.LogLimit `json:"limit"`
	Digest string          `json:"digest,omitempty"` // of the command; empty in records of earlier versions
	Exit   *corral.Exit    `json:"exit,omitempty"`   // nil: its end was not seen
	Lost   string          `json:"lost,omitempty"`   // why its end will never be seen
}

// records is a directory of records.
type records struct{ root *os.Root }

const suffixRecord = ".json"

func openRecords(dir string, retain time.Duration) (*records, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of logs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the directory of logs: %w", err)
	}
	r := &records{root}
	if err := r.prune(time.Now().Add(-retain), nil); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the records in %s: %w", dir, err), root.Close())
	}
	return r, nil
}

func (r *records) close() error { return r.root.Close() }

func (r *records) write(id string, rec record) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	tmp := "." + id + suffixRecord
	if err = r.root.WriteFile(tmp, journal.Sign(b), 0o600); err == nil {
		err = r.root.Rename(tmp, id+suffixRecord)
	}
	if err != nil {
		_ = r.root.Remove(tmp) // else prune does it
		return fmt.Errorf("cannot write the record of %s: %w", id, err)
	}
	return nil
}

// find returns a record, or nil if there is none.
func (r *records) find(id string) (*record, error) {
	b, err := r.root.ReadFile(id + suffixRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the record of %s: %w", id, err)
	}
	rec := new(record)
	if _, err = journal.Check(b); err == nil { // records of earlier versions have no checksum
		err = json.Unmarshal(b, rec)
	}
	if err != nil {
		return nil, fmt.Errorf("the record of %s is damaged: %w", id, err)
	}
	return rec, nil
}

// remove deletes a process's record and log. Removing twice is no error.
func (r *records) remove(id string) error {
	err := r.root.Remove(id + suffixRecord)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err := errors.Join(outlog.Remove(r.root, id), err); err != nil {
		return fmt.Errorf("cannot remove the records of %s: %w", id, err)
	}
	return nil
}

// prune removes old processes that were never removed, except those for which there
// returns true (nil: none), and records that a kill left unfinished.
func (r *records) prune(before time.Time, there func(id string) bool) error {
	entries, err := fs.ReadDir(r.root.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), suffixRecord)
		if !ok {
			continue
		}
		if there != nil && there(id) {
			continue
		}
		// Read the time again, after the directory: at its end a process gets a new
		// record, and is not there any more.
		if info, err := r.root.Lstat(e.Name()); err == nil && info.ModTime().Before(before) {
			errs = append(errs, r.remove(id))
		}
	}
	return errors.Join(errs...)
}
