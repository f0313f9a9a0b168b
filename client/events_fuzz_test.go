package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/session"
)

// readAll reads the events of a stream after a number, until it ends.
func readAll(t *testing.T, stream []byte, after int64) (events []session.Event, next int64, err error) {
	t.Helper()
	next, err = readEvents(bytes.NewReader(stream), after, event, func(e session.Event) bool {
		events = append(events, e)
		return true
	})
	if err != nil && !errors.Is(err, api.ErrInternal) {
		t.Errorf("%q: %v", stream, err)
	}
	if next < 0 {
		t.Errorf("%q: events go on after %d", stream, next)
	}
	return events, next, err
}

// FuzzEvents: whatever a stream holds, a part of it has the first of its events, and no
// others; and the number to go on after is that of the last of these.
func FuzzEvents(f *testing.F) {
	const two = "id: 7\nevent: ended\ndata: {\"seq\":7,\"type\":\"ended\"}\n\n: nothing new\nid: 8\n\nevent: corral.missed\ndata: {\"next\":12}\n\n"
	for _, s := range []string{two, strings.ReplaceAll(two, "\n", "\r\n"), "data: {}\n\n\ndata\n\n", "id: -1\n", "id\n\n", "data: {\ndata: }\n\n", "\rid: 1\n\r\n", "event: corral.missed\ndata: {\"next\":-5}\n\n"} {
		for _, cut := range []int{0, 20, 60, 90} {
			f.Add([]byte(s), cut)
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		if len(stream) > 1<<16 {
			return
		}
		all, next, err := readAll(t, stream, 0)
		cut = min(max(cut, 0), len(stream))
		some, from, serr := readAll(t, stream[:cut], 0)
		if len(some) > len(all) || !cmp.Equal(some, all[:len(some)], cmpopts.EquateEmpty()) {
			t.Fatalf("%q: the first %d bytes have %+v, and all of it has %+v", stream, cut, some, all)
		}
		if cut == len(stream) && (from != next || (err == nil) != (serr == nil)) {
			t.Fatalf("%q: the same stream ends after %d, %v and after %d, %v", stream, next, err, from, serr)
		}
	})
}

// FuzzEventsResumed: of the events of a gateway, which is away at any byte, each comes once.
func FuzzEventsResumed(f *testing.F) {
	f.Add(int64(1), uint8(3), 50, "a\nb")
	f.Add(int64(1<<60), uint8(9), 177, "\r\n\x00é")
	f.Fuzz(func(t *testing.T, first int64, n uint8, cut int, text string) {
		if first < 1 || first > 1<<61 || len(text) > 1<<12 {
			return
		}
		stream := func(after int64) []byte {
			var b bytes.Buffer
			for seq := first; seq < first+int64(n); seq++ {
				if seq <= after {
					continue
				}
				fmt.Fprintf(&b, "id: %d\nevent: ended\ndata: %s\n\n", seq, mustJSON(t, map[string]any{"seq": seq, "type": "ended", "agent": text}))
				if seq%3 == 0 {
					fmt.Fprintf(&b, ": nothing new\nid: %d\n\n", seq)
				}
			}
			return b.Bytes()
		}
		whole := stream(0)
		cut = min(max(cut, 0), len(whole))
		got, after, err := readAll(t, whole[:cut], 0)
		if err != nil {
			t.Fatal(err)
		}
		rest, after, err := readAll(t, stream(after), after)
		if got = append(got, rest...); err != nil || len(got) != int(n) || n > 0 && after != first+int64(n)-1 {
			t.Fatalf("%d events of %d, the last after %d, %v", len(got), n, after, err)
		}
		for i, e := range got {
			if e.Seq != first+int64(i) {
				t.Fatalf("event %d has the number %d", i, e.Seq)
			}
		}
	})
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
