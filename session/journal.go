package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/filelock"
	"github.com/corral-exec/corral/internal/state/journal"
)

// The table on disk is a journal: one JSON object a line, signed (see package
// journal) and appended by a single write, and what it says counts from then on.
// Earlier versions signed no lines. A line that is not as it was written, or that a
// kill or a full disk cut short, says nothing: it is kept aside, in a file beside the
// journal, and what it was about is looked for (see recover.go).
const (
	journalName = "sessions.jsonl"

	opStart      = "start"      // about to be started
	opBegun      = "begun"      // what is known of its process, if it is to outlive this life
	opBackground = "background" // left the foreground; with what is known of its process
	opKill       = "kill"       // is being killed, for Reason
	opEnd        = "end"        // with the event, if there is one
	opSeen       = "seen"       // what was Owed is not any more: somebody saw the end, or here is the event
	opEvent      = "event"      // of a session that may be gone
	opNotice     = "notice"     // it was said that it runs
	opPolled     = "polled"     // output up to Offset has been handed out by Poll
	opGone       = "gone"       // forgotten, or not started
	opSeq        = "seq"        // the next event's number is greater than Offset
)

// compactFrom is the size from which the journal is written anew, when it is
// opened and while it is used; and not before it has grown to four times what it
// was then.
const compactFrom = 1 << 20

// maxLine bounds a line that is read: a command at its largest, escaped.
const maxLine = 16 << 20

// line is one line of the journal. Which fields it has is up to Op.
type line struct {
	Op     string       `json:"op"`
	ID     string       `json:"id,omitempty"`
	Start  *begun       `json:"start,omitempty"`
	Info   *corral.Info `json:"info,omitempty"`
	Reason Reason       `json:"reason,omitempty"`
	End    *ended       `json:"end,omitempty"`
	Owed   bool         `json:"owed,omitempty"` // of an end: it is an event as long as nobody saw it
	Event  *Event       `json:"event,omitempty"`
	Offset int64        `json:"offset,omitempty"`
}

// begun is what the table keeps of a command. Its environment is not in it.
type begun struct {
	Agent  string        `json:"agent"`
	Text   string        `json:"command"`
	For    string        `json:"description,omitempty"`
	Digest string        `json:"digest,omitempty"` // of the command, when its caller chose the ID
	TTY    bool          `json:"tty,omitempty"`
	Stdin  bool          `json:"stdin,omitempty"`
	Merged bool          `json:"merged,omitempty"` // the log has one stream
	Grace  time.Duration `json:"grace,omitempty"`
	At     time.Time     `json:"at"`

	Background bool `json:"background,omitempty"`
	Notify     bool `json:"notify,omitempty"`
	Keep       bool `json:"keep,omitempty"`
	Foreign    bool `json:"foreign,omitempty"` // another program began it

	Approval string        `json:"approval,omitempty"`
	Notice   time.Duration `json:"notice,omitempty"`
}

// ended is how a session ended.
type ended struct {
	State  State        `json:"status"`
	Reason Reason       `json:"reason,omitempty"`
	Detail string       `json:"detail,omitempty"`
	Exit   *corral.Exit `json:"exit,omitempty"`
	At     time.Time    `json:"at"`
	Size   int64        `json:"size"` // of the output
	Gap    int64        `json:"gap,omitempty"`
}

// A table is the journal on disk.
type table struct {
	root *os.Root

	mu        sync.Mutex
	f         *os.File
	added     []byte // while it is compacted; else nil
	compacted int64  // its size when that was done last
	from      int64  // compactFrom
	anew      bool   // it has to be written anew, whatever its size

	damage journal.Damage // what could not be read
	aside  string         // the file that it is kept in
	inside bool           // more is damaged than an unfinished last line, which nobody relied on
}

// openJournal opens the journal for one Manager alone and hands what is in it
// to each, line by line.
func openJournal(dir string, each func(line)) (_ *table, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of sessions: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the directory of sessions: %w", err)
	}
	j := &table{root: root, from: compactFrom}
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	if j.f, err = openLocked(root); err != nil {
		return nil, corral.Errorf(corral.ErrUnavailable, "stop the gateway that has it open, or use another state directory",
			"cannot open the table of sessions in %s: %w", dir, err)
	}
	if j.inside, err = readLines(j.f, each, &j.damage); err != nil {
		return nil, fmt.Errorf("cannot read the table of sessions: %w", err)
	}
	if j.damage.Any() {
		if j.aside, err = j.damage.Keep(root, journalName); err != nil {
			return nil, corral.Errorf(corral.ErrUnavailable, "see whether the disk of the state directory is full", "the table of sessions in %s is damaged: %w", dir, err)
		}
		j.anew = true
	}
	return j, nil
}

// openLocked opens the journal for this process alone.
func openLocked(root *os.Root) (*os.File, error) {
	for {
		f, err := root.OpenFile(journalName, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		if err := filelock.Own(f); err != nil {
			f.Close()
			return nil, err
		}
		// Somebody may have written it anew before we had the lock.
		ours, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		if now, err := root.Stat(journalName); err == nil && os.SameFile(ours, now) {
			return f, nil
		}
		f.Close()
	}
}

// readLines reads a journal. What is no line is damage.
func readLines(r io.Reader, each func(line), damage *journal.Damage) (inside bool, err error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return false, err
	}
	left := len(b)
	for text := range bytes.SplitSeq(b, []byte{'\n'}) {
		left -= len(text) + 1
		if len(text) == 0 { // each line begins with an end of line, too
			continue
		}
		if l, err := decodeLine(text); err != nil {
			damage.Add(text)
			inside = inside || left >= 0
		} else {
			each(l)
		}
	}
	return inside, nil
}

func decodeLine(text []byte) (l line, err error) {
	if len(text) > maxLine {
		return l, errors.New("it is too long")
	}
	if _, err := journal.Check(text); err != nil {
		return l, err
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return l, err
	}
	if l.Op == "" {
		return l, errors.New("it says nothing")
	}
	return l, nil
}

// add appends a line.
func (j *table) add(l line) error {
	b, err := l.encode()
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		return corral.Errorf(corral.ErrUnavailable, "", "the table of sessions is closed")
	}
	if _, err := j.f.Write(b); err != nil {
		return corral.Errorf(corral.ErrUnavailable, "see whether the disk of the state directory is full", "cannot write the table of sessions: %w", err)
	}
	if j.added != nil {
		j.added = append(j.added, b...)
	}
	return nil
}

// encode begins with an end of line, in case the one before was cut short.
func (l line) encode() ([]byte, error) {
	b, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("cannot write the table of sessions: %w", err)
	}
	return append(append([]byte{'\n'}, journal.Sign(b)...), '\n'), nil
}

// compact replaces the journal by one that says the same in fewer lines, if it
// has grown. What is added while the lines are collected is added to both: lines
// that say again what was said change nothing.
func (j *table) compact(snapshot func() []line) error {
	grown, err := j.record()
	if err != nil || !grown {
		return err
	}
	var b []byte
	for _, l := range snapshot() {
		text, lerr := l.encode()
		err = errors.Join(err, lerr)
		b = append(b, text...)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	added := j.added
	j.added = nil
	if err != nil || j.f == nil {
		return err
	}
	const tmp = journalName + ".new"
	if err := j.root.WriteFile(tmp, append(b, added...), 0o600); err != nil {
		return errors.Join(err, j.root.Remove(tmp))
	}
	f, err := j.root.OpenFile(tmp, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), filelock.TryLock(f), j.root.Rename(tmp, journalName)); err != nil {
		f.Close()
		return err
	}
	j.f.Close()
	j.f, j.compacted, j.anew = f, int64(len(b)), false
	return nil
}

// record notes from now on what is added, if the journal has grown.
func (j *table) record() (grown bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		return false, nil
	}
	info, err := j.f.Stat()
	if err != nil || !j.anew && info.Size() < max(j.from, 4*j.compacted) {
		return false, err
	}
	j.added = []byte{}
	return true, nil
}

func (j *table) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f != nil {
		j.f.Close()
		j.f = nil
	}
	j.root.Close()
}
