package e2b

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
)

// The log of a build is bounded, of which clients read each line once: the beginning, how
// many lines are not kept, and the end.
func TestBuildLog(t *testing.T) {
	for _, tc := range []struct {
		name        string
		lines, size int
		whole       bool
	}{
		{"short", 250, 50, true}, {"long lines", 3000, maxLogLine, false}, {"empty lines", 30_000, 0, false}, {"last lines that are all kept", maxLog / 210, 100, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &build{id: "b", agent: "a", name: "x", status: buildRunning}
			s := &Server{builds: builds{all: []*build{b}}}
			var got []logEntry
			poll := func() (status string, n int) {
				r := httptest.NewRequest("GET", fmt.Sprint("/?logsOffset=", len(got)), nil)
				r.SetPathValue("id", b.name)
				r.SetPathValue("build", b.id)
				w := httptest.NewRecorder()
				if err := s.buildStatus(w, r.WithContext(access.WithGrant(r.Context(), access.Token))); err != nil {
					t.Fatal(err)
				}
				var answer struct {
					Status     string
					LogEntries []logEntry
				}
				if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
					t.Fatal(err)
				}
				got = append(got, answer.LogEntries...)
				return answer.Status, len(answer.LogEntries)
			}
			for i := range tc.lines {
				b.log("info", fmt.Sprint(i), strings.Repeat("x", tc.size))
				if i%200 == 0 {
					poll()
				}
			}
			b.log("error", "run", "why")
			b.end(buildHasError, nil)
			for {
				status, n := poll()
				if status != buildHasError {
					t.Fatalf("status %s", status)
				}
				if n == 0 {
					break
				}
			}
			next, lost, size := 0, 0, 0
			for _, e := range got {
				size += e.size()
				if e.Level == "warn" {
					fmt.Sscanf(e.Message, "%d lines are not kept", &lost)
					next += lost
				} else if e.Level == "info" {
					if e.Step != fmt.Sprint(next) {
						t.Fatalf("line %s, want %d", e.Step, next)
					}
					next++
				}
			}
			if last := got[len(got)-1]; next != tc.lines || last.Message != "why" {
				t.Errorf("%d lines of %d, then %+v", next, tc.lines, last)
			}
			if size > maxLog+1000 || (lost == 0) != tc.whole {
				t.Errorf("it has %d bytes, without %d lines", size, lost)
			}
		})
	}
}

// Of a line that is cut, the rest is not in memory.
func TestBuildLogLine(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	b := &build{}
	out := lines{b, "1", map[corral.Stream][]byte{}}
	for range 50 {
		out.add(corral.Chunk{Stream: corral.Stdout, Data: []byte(strings.Repeat("x", 1<<20) + "\n")})
	}
	if n := int64(heap() - before); n > 10<<20 {
		t.Errorf("%d lines hold %d bytes", len(b.logs), n)
	}
	runtime.KeepAlive(b)
}

// The builds of an agent take the place of its own: of those that have ended first, of one
// that runs never.
func TestForgetBuilds(t *testing.T) {
	var bs builds
	add := func(agent, status string) *build {
		b := &build{id: newSnapshotID(), agent: agent, name: "x", status: status}
		if err := bs.add(b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	left := func(b *build) bool {
		_, err := bs.find(access.Token.Sees, "x", b.id)
		return err == nil
	}
	other := add("b", buildWaiting)
	running, first := add("a", buildRunning), add("a", buildWaiting)
	failed, ready, waiting := add("a", buildHasError), add("a", buildReady), add("a", buildWaiting)
	for range maxBuilds - 5 {
		add("a", buildWaiting)
	}
	all := []*build{other, running, waiting, first, ready, failed}
	for n := len(all); ; n-- {
		for i, b := range all {
			if left(b) != (i < n) {
				t.Errorf("when %d are to be left: %s of %s is left: %v", n, b.status, b.agent, left(b))
			}
		}
		if n == 2 {
			break
		}
		add("a", buildWaiting)
	}
	if err := bs.begin(first); !errors.Is(err, corral.ErrNotFound) || first.state() != buildWaiting {
		t.Errorf("one that was forgotten is begun: %v", err)
	}
	if err := bs.begin(other); err != nil {
		t.Error(err)
	}
}

// Builds of one agent leave room for one of another.
func TestBuildsAtATime(t *testing.T) {
	bs := &builds{}
	begin := func(agent string) error {
		b := &build{id: agent, agent: agent, status: buildWaiting}
		bs.all = append(bs.all, b)
		return bs.begin(b)
	}
	for range maxRunningOf {
		if err := begin("busy"); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin("busy"); !errors.Is(err, api.ErrTooMany) || !strings.Contains(err.Error(), "3 of the agent busy") {
		t.Errorf("one more of the agent: %v", err)
	}
	if err := begin("quiet"); err != nil {
		t.Errorf("of another: %v", err)
	}
	if err := begin("third"); !errors.Is(err, api.ErrTooMany) {
		t.Errorf("of a third: %v", err)
	}
}
