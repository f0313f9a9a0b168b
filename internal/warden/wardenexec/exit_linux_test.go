package wardenexec

import (
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// A warden in a sandbox may say anything of what a command left.
func TestOrphansOfAWarden(t *testing.T) {
	m := &wire.Message{Type: wire.Exited, Args: []string{"12", "0", "-3", "x", "", "99999999999999999999", "4294967296", "2147483647", "7"}}
	if got := exitOf(m).Orphans; !slices.Equal(got, []int{12, 2147483647, 7}) {
		t.Error(got)
	}
	m.Args = strings.Split(strings.Repeat("5 ", 5000), " ")
	if got := exitOf(m).Orphans; len(got) != wire.MaxOrphans {
		t.Error(len(got))
	}
	if got := exitOf(&wire.Message{}).Orphans; got != nil {
		t.Error(got)
	}
}

// Names of programs that no kernel has refused do not fill the journal.
func TestRefusedByAWarden(t *testing.T) {
	m := &wire.Message{Type: wire.Exited, Refused: []string{"/bin/x", strings.Repeat("/x", 1<<20)}}
	if got := exitOf(m).Refused; len(got) != 2 || got[0] != "/bin/x" || len(got[1]) != maxRefused {
		t.Errorf("%d names, the last of %d bytes", len(got), len(got[1]))
	}
}

// Of a command that had ended when it was found, it is known what was refused to it.
func TestRefusedBeforeAttach(t *testing.T) {
	f := newFake(t, func(f *fake, m *wire.Message, fds []int) {
		closeFDs(fds)
		if m.Type == wire.Attach {
			f.send(&wire.Message{Type: wire.Started, Req: m.Req, ID: m.ID, Tag: []byte("{}"), Flags: wire.FlagAdopted | wire.FlagEnded, Refused: []string{"/bin/x"}})
		}
	}, &wire.Message{Type: wire.Item, ID: "x", Tag: []byte("{}")})
	e := fakeExecutor(t, f.connect)
	if err := e.records.start("x", 1, tag{}); err != nil {
		t.Fatal(err)
	}
	p, err := e.Attach(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || !slices.Equal(exit.Refused, []string{"/bin/x"}) {
		t.Errorf("%+v, %v", exit, err)
	}
}
