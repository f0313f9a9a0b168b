package wardenexec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/state/filelock"
	"github.com/corral-exec/corral/internal/state/journal"
	"github.com/corral-exec/corral/internal/warden/outlog"
)

// tag travels with a process and comes back on attach: what a later life of
// this program has to know.
type tag struct {
	Info   origin.Info     `json:"info"`
	Limit  corral.LogLimit `json:"limit"`
	Digest string          `json:"digest,omitempty"` // of the command; empty of one that an earlier version gave an ID
	Nonce  string          `json:"nonce"`            // of this start: tells ours from another's
	Losses []string        `json:"losses,omitempty"` // Domain.Lost of the command
}

// agent is the agent that began the process; empty if that is not known.
func (t *tag) agent() string {
	if t.Info.Origin == nil {
		return ""
	}
	return t.Info.Origin.Agent
}

// record is a process that ended.
type record struct {
	tag
	Exit corral.Exit `json:"exit"`
	Lost bool        `json:"lost,omitempty"` // and Exit says nothing
	How  string      `json:"how,omitempty"`  // the place where it was has ended, if that is known
	At   time.Time   `json:"at"`             // when this was recorded
	// Pipes says that its pipes had names, which may be left.
	Pipes bool `json:"pipes,omitempty"`
}

// records is an executor's directory: logs, and a journal of what was started
// and how it ended. A line of the journal is a letter, an ID, for a start the warden,
// the agent and the log's limit, for an end the record, and a checksum. The program that uses the
// directory writes it at once, and it counts from then on. Several programs may use one
// directory at the same time, also earlier versions, which wrote no checksums and no limits.
//
// What is not as it was written says nothing. A program that has the directory alone keeps
// it aside; see damaged.go.
type records struct {
	root      *os.Root
	ephemeral bool
	log       *slog.Logger

	// writing is held for reading while a line is added, and alone while another
	// file takes the journal's place. It comes before mu.
	writing sync.RWMutex
	added   atomic.Int64   // bytes, by this program, since tidy was last begun
	tidying sync.WaitGroup // which close waits for
	tidyUp  sync.Mutex     // held by tidy
	pruned  time.Time      // when prune was last called

	mu        sync.Mutex
	journal   *os.File
	in        journal.Reader // of the journal into the index
	compacted int64          // its size when it was written anew last
	index     map[string]entry
	damage    journal.Damage // what could not be read of it
	again     bool           // processes may be missing: who has one is believed
}

// entry is the last line about an ID. Ends are read again when they are needed.
type entry struct {
	kind   byte
	off    int64 // of the line; of an end, of the record
	size   int
	warden uint64 // that was about to start it; 0: not known
	agent  string // for whom; empty: not known
	limit  corral.LogLimit
}

// JournalName is the name of the journal in a directory of records.
const JournalName = "journal"

const (
	journalName = JournalName

	wasStarted = 'S' // about to be started
	hasEnded   = 'E' // with a record
	isGone     = 'R' // removed, or not started after all

	// Retain is how long an ended process is kept, at least, if no call removes it.
	Retain = 7 * 24 * time.Hour
	// compactFrom is the size from which a journal is written anew at the
	// start, without what is gone.
	compactFrom = journal.CompactFrom
	// tidyAfter is how many bytes this program adds to a journal between two looks
	// at whether it has grown.
	tidyAfter = compactFrom
	// pruneEvery is how often what is too old is looked for.
	pruneEvery = time.Hour
)

func openRecords(dir string, ephemeral bool, log *slog.Logger) (*records, error) {
	root, err := makeRoot(dir)
	for n := 0; n < 10 && errors.Is(err, os.ErrNotExist); n++ { // it was found unused, and moved, just before it was open
		root, err = makeRoot(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make the directory of logs: %w", err)
	}
	r := &records{root: root, ephemeral: ephemeral, log: log, index: map[string]entry{}}
	if ephemeral {
		return r, nil
	}
	err = r.open(time.Now().Add(-Retain))
	if !r.isAt(dir) { // the same, a little later
		r.close()
		return openRecords(dir, ephemeral, log)
	}
	if err != nil {
		r.close()
		return nil, fmt.Errorf("cannot open the records in %s: %w", dir, err)
	}
	return r, nil
}

func makeRoot(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// isAt reports whether a path leads to the records; see Unused.
func (r *records) isAt(dir string) bool {
	ours, err := r.root.Stat(".")
	if err != nil {
		return true // which is said when they are used
	}
	now, err := os.Stat(dir)
	return err == nil && os.SameFile(ours, now) || err != nil && !errors.Is(err, os.ErrNotExist)
}

func (r *records) open(before time.Time) error {
	r.tidyUp.Lock() // which what is added here may want
	defer r.tidyUp.Unlock()
	alone, err := r.openJournal()
	if err != nil {
		return err
	}
	if err := r.update(); err != nil {
		return err
	}
	if !alone {
		if r.damage.Any() { // the next program that has it alone keeps it aside
			r.log.Error("the journal of processes is damaged, and others have it open", "directory", r.root.Name(),
				"pieces", len(r.damage.Pieces), "bytes", r.damage.Size(), "about", r.damage.IDs())
		}
		return nil
	}
	if err := r.mend(); err != nil {
		return err
	}
	r.pruned = time.Now()
	if err := r.prune(before); err != nil {
		return err
	}
	if r.in.At > compactFrom {
		if err := r.compact(); err != nil {
			return err
		}
	}
	return filelock.Share(r.journal)
}

// tidy keeps what is on disk from growing for as long as a program runs: it
// removes what is too old, and writes the journal anew if it has grown.
func (r *records) tidy() error {
	r.tidyUp.Lock()
	defer r.tidyUp.Unlock()
	if now := time.Now(); now.Sub(r.pruned) >= pruneEvery {
		r.pruned = now
		if err := r.prune(now.Add(-Retain)); err != nil {
			return err
		}
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	info, err := r.journal.Stat()
	if err != nil || !journal.Grown(info.Size(), r.compacted) {
		return err
	}
	alone, err := lockJournal(r.journal)
	if err != nil {
		return err
	}
	// Between one lock and the other there was none, and another may have
	// been alone.
	if is, err := r.place(&alone).Is(r.journal); err != nil {
		return err
	} else if !is {
		old := r.journal
		if alone, err = r.openJournal(); err != nil {
			return err
		}
		old.Close()
		r.damage, r.in, r.index = journal.Damage{}, journal.Reader{}, map[string]entry{}
	}
	err = r.update()
	if !alone {
		return err
	}
	if err == nil && r.damage.Any() {
		err = r.keepDamage()
	}
	if err == nil {
		err = r.compact()
	}
	return errors.Join(err, filelock.Share(r.journal))
}

// openJournal opens the journal and tells whether no other program has it open.
func (r *records) openJournal() (alone bool, err error) {
	f, err := r.place(&alone).Open()
	if err == nil {
		r.journal = f
	}
	return alone, err
}

// place is where the journal is; alone tells then whether no other program has it open.
func (r *records) place(alone *bool) *journal.Place {
	return &journal.Place{Root: r.root, Name: journalName, Lock: func(f *os.File) (err error) {
		*alone, err = lockJournal(f)
		return err
	}}
}

func (r *records) close() {
	r.tidying.Wait()
	if r.journal != nil {
		r.journal.Close()
	}
	r.root.Close()
}

// update reads what has been added to the journal. mu is held, or no other
// goroutine has r yet.
func (r *records) update() error { return r.readJournal(false) }

// readJournal reads also what is after the last end of line, if no program writes.
func (r *records) readJournal(all bool) error {
	info, err := r.journal.Stat()
	if err != nil {
		return err
	}
	r.in.Each, r.in.Damage = r.line, &r.damage
	return r.in.Read(r.journal, info.Size(), all)
}

// errLine: a line says nothing, such as one that a kill cut short.
var errLine = errors.New("it is no line of this journal")

// line takes one line into the index.
func (r *records) line(l journal.Line) error {
	line := l.Text
	// Without an end and a checksum it may be the beginning of a line.
	if len(line) < 3 || line[1] != ' ' || !l.Ended && !isSigned(line) {
		return errLine
	}
	kind, text := line[0], line[2:]
	switch kind {
	case wasStarted, isGone:
		// Two spaces, so that no single bit makes an unsigned line of a signed one.
		if at := bytes.LastIndex(line, []byte("  ")); at >= 2 {
			if string(line[at+2:]) != journal.Sum(line[:at]) {
				return errLine
			}
			text = line[2:at]
		}
	case hasEnded:
		if _, err := journal.Check(line); err != nil {
			return errLine
		}
	default:
		return errLine
	}
	id, rec, _ := bytes.Cut(text, []byte{' '})
	if corral.ValidateID(string(id)) != nil {
		return errLine
	}
	switch kind {
	case wasStarted:
		e, err := parseStart(rec)
		if len(rec) > 0 && err != nil {
			return errLine
		}
		e.kind, e.off = wasStarted, l.At
		r.index[string(id)] = e
	case hasEnded:
		if !json.Valid(rec) { // cut short: the warden still has the end
			return errLine
		}
		was := r.index[string(id)]
		r.index[string(id)] = entry{kind: hasEnded, warden: was.warden, agent: was.agent, off: l.At + int64(len(line)-len(rec)), size: len(rec)}
	case isGone:
		if len(rec) > 0 {
			return errLine
		}
		delete(r.index, string(id))
	}
	return nil
}

// errUnwritten: a line is not in the journal.
var errUnwritten = errors.New("cannot write the journal of processes")

// signed is a line with its checksum.
func signed(kind byte, id string, rec []byte) []byte {
	b := fmt.Appendf(nil, "%c %s", kind, id)
	if rec != nil {
		b = append(append(b, ' '), rec...)
	}
	if kind == hasEnded {
		return framed(journal.Sign(b))
	}
	return framed(fmt.Appendf(b, "  %s", journal.Sum(b)))
}

// framed has a line begin with an end of line, too: another program may have been killed
// within the one before.
func framed(line []byte) []byte { return slices.Concat([]byte{'\n'}, line, []byte{'\n'}) }

// startOf is what the line of a start says after its ID. No agent has a '+' in its name.
func startOf(warden uint64, agent string, limit corral.LogLimit) []byte {
	b := strconv.AppendUint(nil, warden, 10)
	if corral.ValidateID(agent) == nil { // as agents' names are
		b = append(append(b, ' '), agent...)
	}
	if limit != (corral.LogLimit{}) {
		b = fmt.Appendf(b, " %d+%d", limit.Head, limit.Tail)
	}
	return b
}

func parseStart(rec []byte) (e entry, err error) {
	number, rest, _ := strings.Cut(string(rec), " ")
	e.warden, err = strconv.ParseUint(number, 10, 64)
	for word := range strings.FieldsSeq(rest) {
		head, tail, isLimit := strings.Cut(word, "+")
		if !isLimit {
			e.agent = word
			continue
		}
		var herr, terr error
		e.limit.Head, herr = strconv.ParseInt(head, 10, 64)
		e.limit.Tail, terr = strconv.ParseInt(tail, 10, 64)
		err = errors.Join(err, herr, terr)
	}
	return e, err
}

// add appends a line.
func (r *records) add(kind byte, id string, rec []byte) error {
	if r.ephemeral {
		return nil
	}
	r.writing.RLock()
	n, err := r.journal.Write(signed(kind, id, rec))
	r.writing.RUnlock()
	if err != nil {
		return corral.Errorf(corral.ErrUnavailable, "see whether the disk of the state directory is full", "%w", fmt.Errorf("%w: %w", errUnwritten, err))
	}
	if r.added.Add(int64(n)) >= tidyAfter {
		r.added.Store(0)
		r.tidying.Go(func() {
			if err := r.tidy(); err != nil {
				r.log.Warn("cannot write the journal of processes anew; it goes on growing", "directory", r.root.Name(), "error", err)
			}
		})
	}
	return nil
}

// start notes an ID before a warden is asked to start it, with what of its tag is needed
// if the warden will not tell.
func (r *records) start(id string, warden uint64, t tag) error {
	return r.add(wasStarted, id, startOf(warden, t.agent(), t.Limit))
}

// notStarted takes back start.
func (r *records) notStarted(id string) error { return r.add(isGone, id, nil) }

// end notes how a process ended.
func (r *records) end(id string, rec record) error {
	if r.ephemeral {
		return nil
	}
	rec.At = time.Now().UTC()
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return r.add(hasEnded, id, b)
}

// startedBy is the warden that was asked to start an ID whose end is not
// known; 0 if that is not known either.
func (r *records) startedBy(id string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.damage.Any() { // its end may be what cannot be read
		return 0
	}
	return r.index[id].warden
}

// limit is that of the log of an ID whose end is not known.
func (r *records) limit(id string) corral.LogLimit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.index[id].limit
}

// find tells what is known of an ID: whether it was started, and how it ended
// if it did.
func (r *records) find(id string) (started bool, rec *record, err error) {
	if r.ephemeral {
		return false, nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.update(); err != nil {
		return false, nil, fmt.Errorf("cannot read the journal of processes: %w", err)
	}
	e, ok := r.index[id]
	if !ok || e.kind == wasStarted {
		return ok, nil, nil
	}
	rec, err = r.record(id, e)
	return true, rec, err
}

func (r *records) record(id string, e entry) (*record, error) {
	b := make([]byte, e.size)
	if _, err := r.journal.ReadAt(b, e.off); err != nil {
		return nil, fmt.Errorf("cannot read the journal of processes: %w", err)
	}
	rec := new(record)
	if err := json.Unmarshal(b, rec); err != nil {
		return nil, fmt.Errorf("the record of %s is damaged: %w", id, err)
	}
	return rec, nil
}

// remove forgets an ended process, with its log.
func (r *records) remove(id string, removeLog func() error) error {
	if err := errors.Join(removeLog(), r.add(isGone, id, nil)); err != nil {
		return fmt.Errorf("cannot remove the records of %s: %w", id, err)
	}
	return nil
}

// prune removes processes that ended before a time and were never removed. Ends need not be
// in the order of their times: the clock may have been set.
func (r *records) prune(before time.Time) error {
	r.mu.Lock()
	ids := r.inOrder()
	r.mu.Unlock()
	for _, id := range ids {
		rec, err := r.ended(id)
		if err != nil {
			return err
		}
		if rec == nil || !rec.At.Before(before) {
			continue
		}
		if err := r.remove(id, func() error { return removeFiles(r.root, id, rec.Pipes) }); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.update()
}

// removeFiles removes what is kept of a process beside its record.
func removeFiles(dir *os.Root, id string, pipes bool) error {
	err := outlog.Remove(dir, id)
	if pipes {
		err = errors.Join(err, outlog.RemovePipes(dir, id))
	}
	return err
}

// ended is the record of a process; nil if there is none.
func (r *records) ended(id string) (*record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.index[id]
	if e.kind != hasEnded {
		return nil, nil
	}
	return r.record(id, e)
}

// inOrder are the IDs in the index in the order of their lines. mu is held.
func (r *records) inOrder() []string {
	return slices.SortedFunc(maps.Keys(r.index), func(a, b string) int { return cmp.Compare(r.index[a].off, r.index[b].off) })
}

// compact writes the journal anew. No other program has it open, and mu is
// held, or no other goroutine has r yet.
func (r *records) compact() error {
	f, err := r.place(new(bool)).Replace(r.rewrite)
	if f == nil {
		return err
	}
	r.journal.Close()
	r.journal, r.in, r.index = f, journal.Reader{}, map[string]entry{}
	err = errors.Join(err, r.update())
	r.compacted = r.in.At
	return err
}

// rewrite writes what is in the index.
func (r *records) rewrite(w io.Writer) error {
	var rec []byte
	for _, id := range r.inOrder() {
		e := r.index[id]
		if e.kind == wasStarted || e.agent != "" { // which the record says only inside
			if _, err := w.Write(signed(wasStarted, id, startOf(e.warden, e.agent, e.limit))); err != nil {
				return err
			}
		}
		if e.kind == wasStarted {
			continue
		}
		rec = slices.Grow(rec[:0], e.size)[:e.size]
		if _, err := r.journal.ReadAt(rec, e.off); err != nil {
			return err
		}
		line := fmt.Appendf(nil, "%c %s %s", hasEnded, id, rec)
		switch is, err := journal.Check(line); {
		case err != nil:
			return fmt.Errorf("the record of %s is damaged: %w", id, err)
		case is:
			line = framed(line)
		default:
			line = signed(hasEnded, id, rec)
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// fromRecord is a process that ended.
func (e *Executor) fromRecord(id string, rec *record) (*process, error) {
	log, err := outlog.Open(e.records.root, id, rec.Limit)
	if err != nil {
		return nil, err
	}
	log.End()
	p := newProcess(e, id)
	p.tag, p.log, p.exit = rec.tag, log, rec.Exit
	p.pipesNamed.Store(rec.Pipes)
	if rec.Lost {
		p.err = errLost(id, rec.How)
	}
	p.concluded = true
	close(p.done)
	close(p.recorded)
	p.settled(nil)
	return p, nil
}
