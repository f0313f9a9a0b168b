package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/filelock"
	sums "github.com/corral-exec/corral/internal/state/journal"
)

// The desk on disk is a journal: one JSON object a line, each a record as it is
// from then on, with a checksum. A last line that a kill or a full disk cut short
// says nothing: what it was to say was never told to anybody. Any other line that
// is not as it was written closes the desk.
const (
	journalName = "approvals.jsonl"
	lockName    = "approvals.lock"

	journalVersion = 1
	compactFrom    = 1 << 20  // bytes
	maxRecord      = 16 << 20 // bytes of a line
)

// sealed is a line: what it says and the CRC-32C of that.
type sealed struct {
	Sum   string          `json:"crc32c"`
	Entry json.RawMessage `json:"entry"`
}

// line is what a line says: the version and the number of the last change in the
// first one, a record in every other.
type line struct {
	Version int     `json:"version,omitempty"`
	Seq     int64   `json:"seq,omitempty"`
	Record  *Record `json:"record,omitempty"`
}

func (l line) encode() ([]byte, error) {
	entry, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(sealed{sums.Sum(entry), entry})
	if len(b) > maxRecord {
		return nil, corral.Errorf(corral.ErrInvalid, "put it into a script", "the command is too large to be approved: its record has %d bytes, of at most %d", len(b), maxRecord)
	}
	return append(b, '\n'), err
}

func decodeLine(text []byte) (line, error) {
	var s sealed
	var l line
	if len(text) > maxRecord {
		return l, errors.New("it is too long")
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return l, err
	}
	if s.Sum != sums.Sum(s.Entry) {
		return l, errors.New("its checksum is another one")
	}
	return l, json.Unmarshal(s.Entry, &l)
}

type journal struct {
	dir       *os.Root
	lock      *os.File
	f         *os.File
	size      int64 // of what counts
	compacted int64 // size when it was last written anew
	broken    error // it cannot be said what is on disk
}

// openJournal opens the journal in a directory for one Desk alone, and hands each
// line to each. cut is how many bytes of a last line were dropped.
func openJournal(dir string, each func(line) error) (_ *journal, cut int, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, 0, corral.Errorf(corral.ErrUnavailable, "", "cannot make the directory of approvals: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, corral.Errorf(corral.ErrUnavailable, "", "cannot open the directory of approvals: %w", err)
	}
	j := &journal{dir: root}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.close())
		}
	}()
	if j.lock, err = root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, 0, corral.Errorf(corral.ErrUnavailable, "", "cannot lock the approvals: %w", err)
	}
	if err := filelock.Own(j.lock); err != nil {
		return nil, 0, corral.Errorf(corral.ErrConflict, "stop the program that has them open, or use another state directory",
			"another program has the approvals in %s open: %w", dir, err)
	}
	if j.f, err = root.OpenFile(journalName, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return nil, 0, corral.Errorf(corral.ErrUnavailable, "", "cannot open the approvals: %w", err)
	}
	if err := atomicfile.SyncDir(dir); err != nil {
		return nil, 0, corral.Errorf(corral.ErrUnavailable, "", "cannot keep the approvals: %w", err)
	}
	text, err := io.ReadAll(j.f)
	if err != nil {
		return nil, 0, corral.Errorf(corral.ErrUnavailable, "", "cannot read the approvals: %w", err)
	}
	good, err := replay(text, each)
	if err != nil {
		name := j.f.Name()
		return nil, 0, corral.Errorf(corral.ErrUnavailable, "move "+name+" away: what is pending is then forgotten, and nothing is allowed by it",
			"cannot trust the approvals: %s:%w", name, err)
	}
	j.size = int64(good)
	if good < len(text) {
		if err := j.f.Truncate(j.size); err != nil {
			return nil, 0, corral.Errorf(corral.ErrUnavailable, "", "cannot mend the approvals: %w", err)
		}
	}
	return j, len(text) - good, nil
}

// replay reads the lines of a journal and returns how many bytes of it count:
// all but a last line that was cut short.
func replay(text []byte, each func(line) error) (good int, err error) {
	for number := 1; good < len(text); number++ {
		end := bytes.IndexByte(text[good:], '\n')
		if end < 0 {
			break
		}
		l, err := decodeLine(text[good : good+end])
		if err == nil {
			switch {
			case (number == 1) != (l.Version != 0):
				err = errors.New("it does not say what its place asks for")
			case number == 1 && l.Version != journalVersion:
				err = fmt.Errorf("it has version %d; this program knows %d", l.Version, journalVersion)
			case number > 1 && l.Record == nil:
				err = errors.New("it has no record")
			default:
				err = each(l)
			}
		}
		if err != nil {
			return 0, fmt.Errorf("%d (byte %d): the line is not as it was written: %w", number, good, err)
		}
		good += end + 1
	}
	return good, nil
}

// add appends lines, which are on disk when it returns. With an error nothing of
// them is.
func (j *journal) add(lines ...line) error {
	var b []byte
	for _, l := range lines {
		text, err := l.encode()
		if err != nil {
			return err
		}
		b = append(b, text...)
	}
	if j.broken != nil {
		return j.broken
	}
	_, err := j.f.Write(b)
	if err == nil {
		err = j.f.Sync()
	}
	if err != nil {
		err = corral.Errorf(corral.ErrUnavailable, "see whether the disk of the state directory is full", "cannot write the approvals: %w", err)
		if undo := errors.Join(j.f.Truncate(j.size), j.f.Sync()); undo != nil {
			j.broken = err
		}
		return err
	}
	j.size += int64(len(b))
	return nil
}

// grown reports whether it is worth to write the journal anew.
func (j *journal) grown() bool { return j.size >= max(compactFrom, 4*j.compacted) }

// replace writes the journal anew, in one step.
func (j *journal) replace(lines []line) error {
	var b strings.Builder
	for _, l := range lines {
		text, err := l.encode()
		if err != nil {
			return err
		}
		b.Write(text)
	}
	const tmp = journalName + ".new"
	f, err := j.dir.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, b.String())
	if err = errors.Join(err, f.Sync()); err == nil {
		err = j.dir.Rename(tmp, journalName)
	}
	if err != nil {
		return errors.Join(err, f.Close(), j.dir.Remove(tmp))
	}
	old := j.f
	j.f, j.size, j.compacted, j.broken = f, int64(b.Len()), int64(b.Len()), nil
	return errors.Join(old.Close(), atomicfile.SyncDir(j.dir.Name()))
}

func (j *journal) close() error {
	var errs []error
	for _, f := range []*os.File{j.f, j.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(append(errs, j.dir.Close())...)
}
