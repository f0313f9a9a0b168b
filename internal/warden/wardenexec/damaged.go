package wardenexec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/journal"
	"github.com/corral-exec/corral/internal/warden/outlog"
)

// mend is for a program that has the directory alone, once the journal was read: what is
// damaged is told and kept aside, and processes that have a log are known
// again, as processes with an unknown end. The warden is believed
// about the others. An empty journal may be one that was lost, as by a power cut.
func (r *records) mend() error {
	if err := r.readJournal(true); err != nil || !r.damage.Any() && r.in.At > 0 {
		return err
	}
	damaged := r.damage.Any()
	if damaged {
		if err := r.keepDamage(); err != nil {
			return err
		}
	}
	ids, err := outlog.IDs(r.root)
	if err != nil || !damaged && len(ids) == 0 {
		return err
	}
	r.mu.Lock()
	r.again = true
	r.mu.Unlock()
	for _, id := range ids {
		if _, known := r.index[id]; !known && corral.ValidateID(id) == nil {
			if err := r.start(id, 0, tag{}); err != nil {
				return err
			}
			r.log.Warn("a process that was missing in the journal has output; how it ended is not known", "id", id)
		}
	}
	if err := r.update(); err != nil {
		return err
	}
	return r.compact()
}

// isSigned reports whether a line has a checksum, which may be another one.
func isSigned(line []byte) bool {
	is, _ := journal.Check(line)
	return is || len(line) > 10 && string(line[len(line)-10:len(line)-8]) == "  "
}

// keepDamage keeps aside what could not be read. mu is held, or no other goroutine has r yet.
func (r *records) keepDamage() error {
	file, err := r.damage.Keep(r.root, journalName)
	if err != nil {
		return fmt.Errorf("the journal of processes is damaged: %w", err)
	}
	r.log.Error("the journal of processes is damaged; what could not be read is kept aside, and how those processes ended may be lost",
		"file", file, "pieces", len(r.damage.Pieces), "bytes", r.damage.Size(), "about", r.damage.IDs())
	r.damage = journal.Damage{}
	for id, e := range r.index { // its end may be what is missing, so that no warden can tell that it was not started
		if e.kind == wasStarted {
			e.warden = 0
			r.index[id] = e
		}
	}
	return nil
}

// someMissing reports whether the journal was damaged in this life.
func (r *records) someMissing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.again || r.damage.Any()
}

// believe notes what a warden has and the journal, which was damaged, has not.
func (r *records) believe(c *client) error {
	if !r.someMissing() {
		return nil
	}
	for id, item := range c.items {
		if corral.ValidateID(id) != nil {
			continue
		}
		if started, _, err := r.find(id); err != nil || started {
			continue
		}
		var t tag
		_ = json.Unmarshal(item.Tag, &t) // one that cannot be read is reported by Attach
		if err := r.start(id, c.warden, t); err != nil {
			return err
		}
		r.log.Warn("a process that was missing in the journal was found again", "id", id)
	}
	return nil
}

// Agents are the processes in a directory of records that were begun for an agent, and
// for which. Programs that have the directory open are left alone. Without one there are none.
func Agents(dir string) (map[string]string, error) {
	f, err := os.Open(filepath.Join(dir, JournalName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &records{journal: f, index: map[string]entry{}}
	if err := r.update(); err != nil {
		return nil, err
	}
	agents := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(r.index)) {
		if agent := strings.TrimSpace(r.index[id].agent); agent != "" {
			agents[id] = agent
		}
	}
	return agents, nil
}
