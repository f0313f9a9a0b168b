package wardenexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/warden/outlog"
	"github.com/corral-exec/corral/internal/warden/wire"
)

func openTest(t *testing.T, dir string) *records {
	t.Helper()
	r, err := openRecords(dir, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

// ran notes a process that started and ended with a code.
func (r *records) ran(t *testing.T, id string, code int) {
	t.Helper()
	if err := r.start(id, 7, tag{}); err != nil {
		t.Error(err)
	}
	if err := r.end(id, record{Exit: corral.Exit{Code: code}}); err != nil {
		t.Error(err)
	}
}

func (r *records) removed(t *testing.T, id string) {
	t.Helper()
	if err := r.remove(id, func() error { return nil }); err != nil {
		t.Error(err)
	}
}

// has fails unless an ID's process is known to have ended with a code.
func (r *records) has(t *testing.T, id string, code int) {
	t.Helper()
	if started, rec, err := r.find(id); !started || rec == nil || err != nil || rec.Exit.Code != code {
		t.Errorf("%s: %t, %+v, %v; want code %d", id, started, rec, err, code)
	}
}

func journalSize(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// A journal may be longer than what is read of it at a time, and so may a line.
func TestLongJournal(t *testing.T) {
	for _, length := range []int{1, 1000, updatePiece - 100, updatePiece, 3*updatePiece + 1} {
		t.Run(strconv.Itoa(length), func(t *testing.T) {
			dir := t.TempDir()
			r := openTest(t, dir)
			const n = 50
			for i := range n {
				if err := r.start(fmt.Sprint("p", i), 7, tag{}); err != nil {
					t.Fatal(err)
				}
				rec := record{tag: tag{Digest: strings.Repeat("x", length*i/n)}, Exit: corral.Exit{Code: i}}
				if err := r.end(fmt.Sprint("p", i), rec); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.journal.Write([]byte("E p1 {")); err != nil { // cut short by a kill
				t.Fatal(err)
			}
			again := openTest(t, dir)
			for i := range n {
				r.has(t, fmt.Sprint("p", i), i)
				again.has(t, fmt.Sprint("p", i), i)
			}
			r.ran(t, "after", 3)
			again.has(t, "after", 3)
		})
	}
}

// What is read of a journal is not in memory as a whole.
func TestLongJournalInPieces(t *testing.T) {
	dir := t.TempDir()
	r := openTest(t, dir)
	rec := record{tag: tag{Digest: strings.Repeat("x", 16<<10)}}
	for i := range 512 {
		if err := r.end(fmt.Sprint("p", i), rec); err != nil {
			t.Fatal(err)
		}
	}
	r.tidying.Wait()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	again := openTest(t, dir)
	runtime.ReadMemStats(&after)
	again.has(t, "p0", 0)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("reading a journal of %d bytes takes %d bytes of memory", journalSize(t, dir), took)
	}
}

// A program that runs for months keeps a journal as long as what is in it, also
// while others start and end commands, and loses nothing.
func TestJournalStaysShort(t *testing.T) {
	dir := testdir.New(t)
	r := openTest(t, dir)
	if err := r.start("runs", 9, tag{}); err != nil {
		t.Fatal(err)
	}
	const writers, each = 4, 4000
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("w%d-%d", w, i)
				r.ran(t, id, i%100)
				if i%100 > 0 {
					r.removed(t, id)
				}
			}
		})
	}
	wg.Wait()
	r.tidying.Wait()
	if size := journalSize(t, dir); size > 2*growth*compactFrom {
		t.Errorf("the journal has %d bytes", size)
	}
	for _, r := range []*records{r, openTest(t, dir)} {
		for w := range writers {
			for i := 0; i < each; i += 100 {
				r.has(t, fmt.Sprintf("w%d-%d", w, i), 0)
			}
			if started, _, err := r.find(fmt.Sprintf("w%d-1", w)); started || err != nil {
				t.Errorf("one that was removed: %t, %v", started, err)
			}
		}
		if started, rec, err := r.find("runs"); !started || rec != nil || err != nil || r.startedBy("runs") != 9 {
			t.Errorf("one that runs: %t, %v, %v, of warden %d", started, rec, err, r.startedBy("runs"))
		}
	}
}

// grow makes a journal long enough to be written anew.
func (r *records) grow(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	want := 2 * growth * max(compactFrom, r.compacted)
	r.mu.Unlock()
	for n := int64(0); n < want; n += 100 {
		r.ran(t, "grown", 1)
		r.removed(t, "grown")
	}
	r.tidying.Wait()
}

// A journal that another program has open is left as it is; and who finds that
// another has written it anew goes on with that one.
func TestJournalOfSeveral(t *testing.T) {
	dir := testdir.New(t)
	a, b := openTest(t, dir), openTest(t, dir)
	a.ran(t, "kept", 3)
	a.grow(t)
	if size := journalSize(t, dir); size < growth*compactFrom {
		t.Errorf("it was written anew under another program: %d bytes", size)
	}
	b.has(t, "kept", 3)
	b.ran(t, "of-b", 4)
	b.close()
	if err := a.tidy(); err != nil {
		t.Fatal(err)
	}
	if size := journalSize(t, dir); size > compactFrom {
		t.Errorf("it was not written anew: %d bytes", size)
	}
	a.has(t, "kept", 3)
	a.has(t, "of-b", 4)

	// As if another had been alone for a moment.
	a.grow(t)
	text, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	for len(text) < growth*compactFrom {
		text = append(text, "\nR nobody\n"...)
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, append(text, "\nS other 5\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, filepath.Join(dir, journalName)); err != nil {
		t.Fatal(err)
	}
	// What it has itself has to be long enough for it to look.
	a.mu.Lock()
	a.compacted = 0
	err = a.journal.Truncate(int64(len(text)))
	a.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.tidy(); err != nil {
		t.Fatal(err)
	}
	a.has(t, "kept", 3)
	if started, _, err := a.find("other"); !started || err != nil {
		t.Errorf("what another wrote: %t, %v", started, err)
	}
	a.ran(t, "after", 6)
	openTest(t, dir).has(t, "after", 6)
}

// What is too old goes while the program goes on, with its log.
func TestPruneWhileUsed(t *testing.T) {
	dir := testdir.New(t)
	r := openTest(t, dir)
	for _, p := range []struct {
		id  string
		age time.Duration
	}{{"ahead", -1000 * time.Hour}, {"old", Retain + time.Hour}, {"young", Retain - time.Hour}} { // the clock was ahead once
		b, err := json.Marshal(record{At: time.Now().Add(-p.age), Exit: corral.Exit{Code: 2}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.add(hasEnded, p.id, b); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.id+".out"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.has(t, "old", 2)
	if err := r.tidy(); err != nil { // too soon: it was looked for at the start
		t.Fatal(err)
	}
	r.has(t, "old", 2)
	r.pruned = r.pruned.Add(-pruneEvery)
	if err := r.tidy(); err != nil {
		t.Fatal(err)
	}
	if started, _, err := r.find("old"); started || err != nil {
		t.Errorf("what is old: %t, %v", started, err)
	}
	r.has(t, "young", 2)
	if _, err := os.Stat(filepath.Join(dir, "old.out")); !os.IsNotExist(err) {
		t.Errorf("the log of what is old: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "young.out")); err != nil {
		t.Error(err)
	}
}

// tagFor is the tag of a process that was begun for an agent.
func tagFor(agent string) tag {
	return tag{Info: origin.Info{Origin: &origin.Origin{Agent: agent}}}
}

// What a process printed before its warden was gone can be read by the limit that its
// log has, also after the journal was written anew.
func TestLimitOfALostProcess(t *testing.T) {
	dir := t.TempDir()
	r, err := openRecords(dir, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	limit := corral.LogLimit{Head: 10, Tail: 20}
	for id, agent := range map[string]string{"one": "main", "two": ""} {
		tg := tagFor(agent)
		tg.Limit = limit
		if err := r.start(id, 7, tg); err != nil {
			t.Fatal(err)
		}
		log := outlog.New(r.root, id, limit)
		if err := log.Append(corral.Stdout, 0, []byte("0123456789"+strings.Repeat("x", 80)+"9876543210")); err != nil {
			t.Fatal(err)
		}
		log.Abandon()
	}
	if err := r.update(); err != nil {
		t.Fatal(err)
	}
	if err := r.compact(); err != nil {
		t.Fatal(err)
	}
	r.close()
	if agents, err := Agents(dir); err != nil || len(agents) != 1 || agents["one"] != "main" {
		t.Errorf("%v, %v", agents, err)
	}
	e, err := New(Options{Dir: dir, Connect: func(context.Context, bool) (wire.Conn, error) { return nil, ErrGone }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for range 2 { // and by the record of its end
		for _, id := range []string{"one", "two"} {
			p, err := e.Attach(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Wait(t.Context()); !errors.Is(err, corral.ErrLost) {
				t.Errorf("Wait: %v", err)
			}
			if st, err := p.Log().Stat(t.Context()); err != nil || st.Size != 100 || st.GapStart != 10 || st.GapEnd != 80 {
				t.Errorf("%s: %+v, %v", id, st, err)
			}
		}
	}
}
