package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/outlog"
	"github.com/corral-exec/corral/internal/wardenexec"
)

// execRecord is a process of the execDriver as ID.json has it.
type execRecord struct {
	Info   corral.Info     `json:"info"`
	Limit  corral.LogLimit `json:"limit"`
	Digest string          `json:"digest,omitempty"` // of the command, if its caller chose the ID
	Exit   *corral.Exit    `json:"exit,omitempty"`   // nil: it was not seen to end
}

// execRecords is an execDriver's directory.
type execRecords struct{ root *os.Root }

const suffixExecRecord = ".json"

func openExecRecords(dir string) (*execRecords, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of logs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the directory of logs: %w", err)
	}
	r := &execRecords{root}
	if err := r.prune(time.Now().Add(-wardenexec.Retain)); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the records in %s: %w", dir, err), root.Close())
	}
	return r, nil
}

func (r *execRecords) close() error { return r.root.Close() }

func (r *execRecords) write(id string, rec execRecord) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	tmp := "." + id + suffixExecRecord
	if err := r.root.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("cannot write the record of %s: %w", id, err)
	}
	if err := r.root.Rename(tmp, id+suffixExecRecord); err != nil {
		return fmt.Errorf("cannot write the record of %s: %w", id, err)
	}
	return nil
}

// find returns nil if there is no record.
func (r *execRecords) find(id string) (*execRecord, error) {
	b, err := r.root.ReadFile(id + suffixExecRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the record of %s: %w", id, err)
	}
	rec := new(execRecord)
	if err := json.Unmarshal(b, rec); err != nil {
		return nil, fmt.Errorf("the record of %s is damaged: %w", id, err)
	}
	return rec, nil
}

// remove deletes a process's record and log. Removing twice is no error.
func (r *execRecords) remove(id string) error {
	err := r.root.Remove(id + suffixExecRecord)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err := errors.Join(outlog.Remove(r.root, id), err); err != nil {
		return fmt.Errorf("cannot remove the records of %s: %w", id, err)
	}
	return nil
}

// prune removes processes of before a time that were never removed.
func (r *execRecords) prune(before time.Time) error {
	entries, err := fs.ReadDir(r.root.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), suffixExecRecord)
		if !ok || id == "" || id[0] == '.' {
			continue
		}
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			errs = append(errs, r.remove(id))
		}
	}
	return errors.Join(errs...)
}
