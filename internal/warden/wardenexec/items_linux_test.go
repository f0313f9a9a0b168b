package wardenexec

import (
	"errors"
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
			if err := e.records.start("x", 1, ""); err != nil {
				t.Fatal(err)
			}
			_, err := e.Attach(t.Context(), "x")
			if !errors.Is(err, corral.ErrUnavailable) || errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), "the log limit") {
				t.Errorf("%s, listed %s: Attach: %v", limit, listed, err)
			}
		}
	}
}
