package approval

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/filelock"
	"github.com/corral-exec/corral/internal/state/journal"
)

// On disk the desk is a journal: each line is a JSON object with the new state of a record
// and a checksum. A last line that was cut short by a kill is ignored: its change was never
// reported to a caller. The desk does not open if any other line is damaged.
const (
	journalName = "approvals.jsonl"
	lockName    = "approvals.lock"

	journalVersion = 1
	maxRecord      = journal.MaxLine // bytes of a line
)

// line is a line of the journal: the first has the version and the number of the last
// change, every other has a record.
type line struct {
	Version int     `json:"version,omitempty"`
	Seq     int64   `json:"seq,omitempty"`
	Record  *Record `json:"record,omitempty"`
}

func (l line) encode() ([]byte, error) {
	b, err := journal.Seal(l)
	if len(b) > maxRecord+1 {
		return nil, corral.Errorf(corral.ErrInvalid, "put it into a script", "the command is too large to be approved: its record has %d bytes, of at most %d", len(b)-1, maxRecord)
	}
	return b, err
}

// decoded returns a function that decodes a line and passes it to each.
func decoded(each func(line) error) func(journal.Line) error {
	first := true
	return func(t journal.Line) error {
		var l line
		err := journal.Unseal(t.Text, &l)
		switch {
		case err != nil:
			return err
		case first != (l.Version != 0):
			return errors.New("it does not say what its place asks for")
		case first && l.Version != journalVersion:
			return fmt.Errorf("it has version %d; this program knows %d", l.Version, journalVersion)
		case !first && l.Record == nil:
			return errors.New("it has no record")
		}
		first = false
		return each(l)
	}
}

// openJournal opens the journal in a directory for one Desk alone, and passes each line to
// each.
func openJournal(dir string, each func(line) error) (*journal.File, error) {
	j, err := journal.Open(dir, journal.Options{
		Name: journalName, Lock: lockName, What: "the approvals", Each: decoded(each), Sync: true, Strict: true,
	})
	switch {
	case err == nil:
		return j, nil
	case errors.Is(err, filelock.ErrLocked):
		return nil, corral.Errorf(corral.ErrConflict, "stop the program that has them open, or use another state directory",
			"another program has the approvals in %s open: %w", dir, err)
	case errors.Is(err, journal.ErrLine):
		name := filepath.Join(dir, journalName)
		return nil, corral.Errorf(corral.ErrUnavailable, "move "+name+" away: what is pending is then forgotten, and nothing is allowed by it",
			"cannot trust the approvals: %s:%w", name, err)
	}
	return nil, corral.Errorf(corral.ErrUnavailable, "", "cannot open the approvals in %s: %w", dir, err)
}

// replay reads the lines of a journal and returns how many bytes are valid: all but a last
// line that was cut short.
func replay(text []byte, each func(line) error) (good int, err error) {
	r := journal.Reader{Each: decoded(each)}
	err = r.Read(bytes.NewReader(text), int64(len(text)), false)
	return int(r.At), err
}
