package wardenexec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wire"
)

// A warden that gives back another limit of a log than a log can have does not end
// the program that attaches after a restart.
func TestLimitOfALyingWarden(t *testing.T) {
	for _, limit := range []string{
		`{"head":10,"tail":-5}`, `{"head":-1,"tail":5}`,
		`{"head":9223372036854775807,"tail":9223372036854775807}`, `{"tail":9223372036854775807}`,
	} {
		for _, listed := range []string{"{}", `{"limit":` + limit + `}`} {
			f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
				closeFDs(fds)
				if m.Type == wire.Attach {
					f.send(&wire.Message{Type: wire.Started, Req: m.Req, ID: m.ID, PID: 1, Tag: []byte(`{"limit":` + limit + `}`), Flags: wire.FlagTTY})
					f.send(&wire.Message{Type: wire.Output, ID: m.ID, Stream: 1, Data: make([]byte, 64)})
				}
			}, &wire.Message{Type: wire.Item, ID: "x", PID: 1, Tag: []byte(listed), Flags: wire.FlagTTY})
			f.gw.(*wire.Packets).SetOneWay()
			e := fakeExecutor(t, f.connect)
			if err := e.records.start("x", 1, tag{}); err != nil {
				t.Fatal(err)
			}
			_, err := e.Attach(t.Context(), "x")
			if !errors.Is(err, corral.ErrUnavailable) || errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), "limit") {
				t.Errorf("%s, listed %s: Attach: %v", limit, listed, err)
			}
		}
	}
}

// A warden whose list of processes has as much as it likes takes no more than some memory
// for it, whichever of its fields has it.
func TestItemsOfALyingWarden(t *testing.T) {
	large := make([]byte, 5<<20)
	many := slices.Repeat([]string{"x"}, 1<<20)
	for _, tc := range []struct {
		name string
		n    int
		item wire.Message
		want string // of the error; empty: it is kept
	}{
		{"an honest one", 100, wire.Message{ID: "x%d", Tag: make([]byte, wire.MaxTag), Args: []string{"1"}}, ""},
		{"a large tag", 1, wire.Message{ID: "x%d", Tag: large[:wire.MaxTag+1]}, "a tag of 8193 bytes"},
		{"many tags", 1 << 14, wire.Message{ID: "x%d", Tag: large[:wire.MaxTag]}, "more than 67108864 bytes"},
		{"large names", 40, wire.Message{ID: "x%d" + string(large)}, "more than 67108864 bytes"},
		{"many", 1<<16 + 1, wire.Message{ID: "x%d"}, "more than 65536 processes"},
		{"large texts", 3, wire.Message{ID: "x%d", Text: string(large)}, ""},
		{"data", 3, wire.Message{ID: "x%d", Data: large}, ""},
		{"many strings", 3, wire.Message{ID: "x%d", Args: many, Refused: many, Features: many, Env: many}, ""},
	} {
		c, size := &client{items: map[string]*wire.Message{}}, 0
		var err error
		for i := 0; i < tc.n && err == nil; i++ {
			m := tc.item
			m.Type, m.ID = wire.Item, strings.Replace(m.ID, "%d", fmt.Sprint(i), 1)
			err = c.keepItem(&m, &size)
		}
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
		kept := 0
		for _, m := range c.items {
			kept += len(m.Append(nil))
		}
		if most := maxItemBytes + 100*tc.n; kept > most || tc.want == "" && kept > 9000*tc.n {
			t.Errorf("%s: %d bytes are kept", tc.name, kept)
		}
	}
}

// A connection to a warden that lists too much is none.
func TestGreetingOfALyingWarden(t *testing.T) {
	f := newFake(t, func(_ *fake, _ *wire.Message, fds []int) { closeFDs(fds) },
		&wire.Message{Type: wire.Item, ID: "x", Tag: make([]byte, 5<<20)})
	e := fakeExecutor(t, f.connect)
	if err := e.records.start("x", 1, tag{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Attach(t.Context(), "x"); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "a tag of 5242880 bytes") {
		t.Errorf("Attach: %v", err)
	}
}

// What a warden gives back of a process goes into the journal, and is no larger than what
// was given to it.
func TestTagOfALyingWarden(t *testing.T) {
	f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
		closeFDs(fds)
		if m.Type == wire.Attach {
			tag := []byte(`{"nonce":"` + strings.Repeat("x", wire.MaxTag) + `"}`)
			f.send(&wire.Message{Type: wire.Started, Req: m.Req, ID: m.ID, PID: 1, Tag: tag, Flags: wire.FlagTTY})
		}
	})
	f.gw.(*wire.Packets).SetOneWay()
	e := fakeExecutor(t, f.connect)
	if err := e.records.start("x", 1, tag{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Attach(t.Context(), "x"); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "more than 8192") {
		t.Errorf("Attach: %v", err)
	}
}
