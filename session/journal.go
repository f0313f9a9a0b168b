package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/state/filelock"
	"github.com/corral-exec/corral/internal/state/journal"
)

// The table on disk is a journal (see package journal): one signed JSON object a line.
// A line is valid from when it is appended. Earlier versions signed no lines. A line
// that was altered, or that a kill cut short, is ignored. It is kept in a file beside
// the journal, and its session is searched for (see recover.go).
const (
	journalName = "sessions.jsonl"

	opStart      = "start"      // about to be started
	opBegun      = "begun"      // its process's Info, so that it outlives this life of the program
	opBackground = "background" // left the foreground; with the process's Info
	opKill       = "kill"       // is being killed, for Reason
	opEnd        = "end"        // with the event, if there is one
	opSeen       = "seen"       // the event that Owed announces is not needed, or is here
	opEvent      = "event"      // of a session that may be gone
	opNotice     = "notice"     // an event said that it runs
	opPolled     = "polled"     // output up to Offset has been handed out by Poll
	opGone       = "gone"       // forgotten, or not started
	opSeq        = "seq"        // the next event's number is greater than Offset
)

// line is one line of the journal. Op decides which fields it has.
type line struct {
	Op     string       `json:"op"`
	ID     string       `json:"id,omitempty"`
	Start  *begun       `json:"start,omitempty"`
	Info   *corral.Info `json:"info,omitempty"`
	Node   string       `json:"node,omitempty"` // of begun: identifies the node of Info, whose name may change
	Reason Reason       `json:"reason,omitempty"`
	End    *ended       `json:"end,omitempty"`
	Owed   bool         `json:"owed,omitempty"` // of an end: it becomes an event unless a call has seen it
	Event  *Event       `json:"event,omitempty"`
	Offset int64        `json:"offset,omitempty"`
}

// begun is the table's record of a command. It leaves out the environment.
type begun struct {
	origin.Origin
	For    string    `json:"description,omitempty"`
	Digest string    `json:"digest,omitempty"` // of the command, if its caller chose the ID
	At     time.Time `json:"at"`

	Background bool `json:"background,omitempty"`
	Notify     bool `json:"notify,omitempty"`
	Keep       bool `json:"keep,omitempty"`
	Foreign    bool `json:"foreign,omitempty"` // another program began it

	Key      string        `json:"key,omitempty"` // the key that began it
	Approval string        `json:"approval,omitempty"`
	Notice   time.Duration `json:"notice,omitempty"`
	Linger   time.Duration `json:"linger,omitempty"`
}

// ended is how a session ended.
type ended struct {
	Outcome
	At   time.Time `json:"at"`
	Size int64     `json:"size"` // of the output
	Gap  int64     `json:"gap,omitempty"`
}

// A table is the journal on disk.
type table struct {
	*journal.File
	log *slog.Logger
}

// openJournal opens the journal for one Manager alone and calls each with every line.
func openJournal(dir string, each func(line), log *slog.Logger) (*table, error) {
	f, err := journal.Open(dir, journal.Options{Name: journalName, What: "the table of sessions", Each: decoded(each)})
	if err != nil {
		hint := ""
		if errors.Is(err, filelock.ErrLocked) {
			hint = "stop the gateway that has it open, or use another state directory"
		}
		return nil, corral.Errorf(corral.ErrUnavailable, hint, "cannot open the table of sessions in %s: %w", dir, err)
	}
	return &table{f, log}, nil
}

func decoded(each func(line)) func(journal.Line) error {
	return func(t journal.Line) error {
		l, err := decodeLine(t.Text)
		if err == nil {
			each(l)
		}
		return err
	}
}

func decodeLine(text []byte) (l line, err error) {
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

// encode begins with an end of line, in case the line before was cut short.
func (l line) encode() ([]byte, error) {
	b, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("cannot write the table of sessions: %w", err)
	}
	return append(append([]byte{'\n'}, journal.Sign(b)...), '\n'), nil
}

// add appends a line.
func (j *table) add(l line) error {
	b, err := l.encode()
	if err != nil {
		return err
	}
	return j.Append(b)
}

// compact replaces a journal that has grown by an equivalent one with fewer lines.
func (j *table) compact(snapshot func() []line) error {
	if !j.Grown() {
		return nil
	}
	return j.rewrite(snapshot)
}

// rewrite leaves out a line that cannot be encoded: otherwise one such line would keep the
// journal of all sessions from being written anew.
func (j *table) rewrite(snapshot func() []line) error {
	return j.Compact(func() (b []byte, _ error) {
		for _, l := range snapshot() {
			text, err := l.encode()
			if err != nil {
				j.log.Error("a line is left out of the table of sessions", "op", l.Op, "session", l.ID, "error", err)
			}
			b = append(b, text...)
		}
		return b, nil
	})
}
