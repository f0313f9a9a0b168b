package warden

import (
	"fmt"
	"testing"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// However short a command is, its end is told once, after its start: a second time
// could be taken for the end of the next command with its ID.
func TestEndIsToldOnce(t *testing.T) {
	y, served := overPipe(t, Options{})
	b := wire.NewFrames(y, y, y)
	say := func(m *wire.Message) {
		if err := b.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	say(&wire.Message{Type: wire.Hello, Req: 1, Version: wire.Version, Epoch: "e", StartedAt: 1})
	const commands = 200
	heard := map[string][]wire.Type{}
	ended := 0
	for i := range commands {
		say(&wire.Message{Type: wire.Start, Req: uint64(i + 2), ID: fmt.Sprint("p", i), Args: []string{"/bin/true"}, Dir: "/", Epoch: "e"})
		for ended <= i {
			m, fds, err := b.Recv()
			if err != nil {
				t.Fatal(err)
			}
			closeFDs(fds)
			switch m.Type {
			case wire.Started, wire.Exited:
				heard[m.ID] = append(heard[m.ID], m.Type)
			case wire.Error:
				t.Fatalf("%s: %s", m.ID, m.Text)
			}
			if m.Type == wire.Exited {
				ended++
			}
		}
	}
	say(&wire.Message{Type: wire.Attach, Req: commands + 2, ID: "none", Epoch: "e"}) // its answer comes after all of that
	for {
		m, fds, err := b.Recv()
		if err != nil {
			t.Fatal(err)
		}
		closeFDs(fds)
		if m.Type == wire.Error {
			break
		}
		if m.Type != wire.Output {
			heard[m.ID] = append(heard[m.ID], m.Type)
		}
	}
	for id, types := range heard {
		if len(types) != 2 || types[0] != wire.Started || types[1] != wire.Exited {
			t.Errorf("%s: told %v, want Started and Exited", id, types)
		}
	}
	b.Close()
	if err := <-served; err != nil {
		t.Log(err)
	}
}
