package session

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/state/journal"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// A damaged is a table with sessions of every kind, and what there is to find them
// by.
type damaged struct {
	*rig
	ids   []string
	table []byte // as it was
	log   bytes.Buffer
}

func (r *rig) toDamage() *damaged {
	r.Helper()
	d := &damaged{rig: r}
	r.x.Origin = &origin.Origin{Agent: DefaultAgent, Command: "as it was begun"}
	d.ids = []string{
		r.begin("sleep", Options{Background: true, NotifyOnExit: true}).ID(),
		r.begin("cat", Options{Background: true, Command: corral.Command{Stdin: true}}).ID(),
		r.begin("false", Options{Background: true, NotifyOnExit: true}).ID(),
		r.begin("greet", Options{Background: true}).ID(),
	}
	synctest.Wait()
	r.ok(r.m.Close())
	b, err := os.ReadFile(filepath.Join(r.cfg.Dir, journalName))
	r.ok(err)
	d.table = b
	r.cfg.Log = slog.New(slog.NewTextHandler(&d.log, nil))
	r.cfg.Kept = func() (map[string]string, error) {
		kept := map[string]string{}
		for _, id := range d.ids {
			kept[id] = DefaultAgent
		}
		return kept, nil
	}
	return d
}

// opened has the sessions back from a table, and returns what was kept aside.
func (d *damaged) opened(table []byte) string {
	d.Helper()
	dir := d.T.TempDir()
	d.ok(os.WriteFile(filepath.Join(dir, journalName), table, 0o600))
	d.log.Reset()
	cfg := d.cfg
	cfg.Dir = dir
	m, err := Open(context.Background(), cfg)
	d.ok(err)
	synctest.Wait()
	for i, id := range d.ids {
		s, err := m.Agent(DefaultAgent).Session(id)
		if err != nil {
			d.Fatalf("%v\n%s\n%s", err, d.log.String(), table)
		}
		want := []State{Running, Running, Completed, Completed}[i]
		if got := s.Status(context.Background()); got.State != want {
			d.Fatalf("%s is %s %s, want %s\n%s\n%s", id, got.State, got.Detail, want, d.log.String(), table)
		}
	}
	d.ok(m.Close())
	aside, err := filepath.Glob(filepath.Join(dir, journalName+journal.Infix+"*"))
	d.ok(err)
	if len(aside) == 0 {
		return ""
	}
	b, err := os.ReadFile(aside[0])
	d.ok(err)
	if said := d.log.String(); !strings.Contains(said, "level=ERROR") || !strings.Contains(said, aside[0]) {
		d.Errorf("nothing was said of the damage: %s", said)
	}
	// It is not damaged any more.
	d.log.Reset()
	m, err = Open(context.Background(), cfg)
	d.ok(err)
	d.ok(m.Close())
	if d.log.Len() > 0 {
		d.Errorf("the next life: %s", d.log.String())
	}
	return string(b)
}

// Wherever the table is cut, every session is back; what was cut within a line is
// kept aside.
func TestTableCut(t *testing.T) {
	inBubble(t, func(r *rig) {
		d := r.toDamage()
		for n := range d.table {
			cut := d.table[:n]
			aside := d.opened(cut)
			last := string(cut[bytes.LastIndexByte(cut, '\n')+1:])
			_, err := decodeLine([]byte(last))
			if want := last != "" && err != nil; want != (aside != "") || want && aside != last+"\n" {
				t.Fatalf("cut at %d, after %q: %q is kept aside", n, last, aside)
			}
		}
	})
}

// Whichever bit flips, every session is back, and what cannot be read is kept aside.
func TestTableFlipped(t *testing.T) {
	inBubble(t, func(r *rig) {
		d := r.toDamage()
		for n := 0; n < len(d.table); n += 3 {
			b := bytes.Clone(d.table)
			b[n] ^= 1 << (n % 8)
			end := n + bytes.IndexByte(d.table[n:], '\n')
			inSum := end-n <= len(`,"sum":"01234567"}`) // the rest of the line may be as it was
			if aside := d.opened(b); aside == "" && !inSum {
				t.Fatalf("byte %d as %q: nothing was kept aside", n, b[n])
			}
		}
	})
}

// If nothing of the table can be read, nothing is lost that the executors have.
func TestTableRandom(t *testing.T) {
	inBubble(t, func(r *rig) {
		d := r.toDamage()
		noise := bytes.Repeat([]byte{0x9f, 0, 0x1b, '{', '\n', 0xff}, 500)
		if aside := d.opened(noise); len(aside) < 2000 {
			t.Errorf("%d bytes are kept aside", len(aside))
		}
		d.opened(nil) // and none at all
	})
}

// The table of an earlier version has no checksums.
func TestTableUnsigned(t *testing.T) {
	inBubble(t, func(r *rig) {
		d := r.toDamage()
		var old []byte
		for l := range bytes.SplitSeq(d.table, []byte{'\n'}) {
			if at := bytes.Index(l, []byte(`,"sum":"`)); at > 0 {
				l = append(bytes.Clone(l[:at]), '}')
			}
			old = append(append(old, l...), '\n')
		}
		r.cfg.Kept = nil
		if aside := d.opened(old); aside != "" || d.log.Len() > 0 {
			t.Errorf("%q is kept aside: %s", aside, d.log.String())
		}
	})
}

// Without records of executors, what damaged lines were about is said, and found
// again where it is.
func TestTableSuspects(t *testing.T) {
	inBubble(t, func(r *rig) {
		d := r.toDamage()
		r.cfg.Kept = nil
		b := bytes.Replace(d.table, []byte(`"op":"start"`), []byte(`"op":"stalt"`), 1)
		if aside := d.opened(b); !strings.Contains(aside, d.ids[0]) {
			t.Errorf("%q is kept aside", aside)
		}
	})
}

// What a damaged table says began and no executor knows may have run.
func TestTableDamagedBeginning(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.begin("sleep", Options{Background: true})
		r.ok(r.m.Close())
		table := filepath.Join(r.cfg.Dir, journalName)
		b, err := os.ReadFile(table)
		r.ok(err)
		r.ok(os.WriteFile(table, bytes.Replace(b, []byte(`"op":"begun"`), []byte(`"op":"bebun"`), 1), 0o600))
		r.break_(func(op fakeexec.Op, _ string) error {
			if op == fakeexec.OpAttach {
				return corral.Errorf(corral.ErrNotFound, "", "it does not know it")
			}
			return nil
		})
		r.open()
		time.Sleep(time.Second)
		for _, s := range r.m.all() {
			r.status(s, Unknown, ReasonLost)
		}
	})
}

// What was removed stays so, wherever its life ended within the removal: the process
// is there still, and no session.
func TestRemovedIsNotFoundAgain(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		inBubble(t, func(r *rig) {
			r.x.Origin = &origin.Origin{Agent: DefaultAgent, Command: "greet"}
			s := r.begin("greet", Options{Background: true})
			id := s.ID()
			r.cfg.Kept = func() (map[string]string, error) { return map[string]string{id: DefaultAgent}, nil }
			synctest.Wait()
			r.break_(func(op fakeexec.Op, _ string) error {
				if op == fakeexec.OpRemove {
					return errors.New("killed here")
				}
				return nil
			})
			if err := s.Remove(context.Background()); err == nil {
				r.Fatal("the process was removed")
			}
			if compacted {
				r.ok(r.m.journal.rewrite(r.m.snapshot))
			}
			r.reopen()
			synctest.Wait()
			if _, err := r.agent().Session(id); !errors.Is(err, corral.ErrNotFound) {
				r.Errorf("compacted %v: it is a session again: %v", compacted, err)
			}
			r.break_(nil)
			time.Sleep(time.Minute)
			if _, err := r.x.Attach(context.Background(), id); !errors.Is(err, corral.ErrNotFound) {
				r.Errorf("compacted %v: its process is left: %v", compacted, err)
			}
		})
	}
}
