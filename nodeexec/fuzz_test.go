package nodeexec

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/origin"
)

// said is a message of FuzzFabric: [length of subject][subject][status][length
// u16][data].
func said(subject string, status byte, data []byte) []byte {
	b := append([]byte{byte(len(subject))}, subject...)
	return append(append(b, status, byte(len(data)>>8), byte(len(data))), data...)
}

// A node says whatever it likes, under its own name, which is all that the message
// server lets it: the gateway does not die, keeps no more than it granted, and
// believes nothing about what another node was asked.
func FuzzFabric(f *testing.F) {
	out := func(o fabric.Output) []byte { return o.Append(nil) }
	for _, messages := range [][][]byte{
		{said("a.1", 0, fabric.EncodeAnswer(fabric.Answer{Boot: "b", Info: &origin.Info{Info: corral.Info{ID: "job"}}})), said("a.2", 0, []byte(`{"boot":"c","refused":"boot"}`)), said("a.1", 1, nil)},
		{said("o.1", 0, out(fabric.Output{Stream: corral.Stdout, Data: []byte("text")})), said("o.1", 0, out(fabric.Output{From: 4, Offset: 9, Stream: corral.Stderr, Data: []byte("more")})), said("o.1", 0, out(fabric.Output{From: 13, Offset: 13, Flags: fabric.FlagEnd, Data: []byte(`{"boot":"b","exit":{"exitCode":3,"reason":"exited"}}`)}))},
		{said("o.1", 0, out(fabric.Output{Flags: fabric.FlagError, Data: []byte(`{"code":"lost","message":"text"}`)})), said("o.2", 0, out(fabric.Output{Stream: corral.Stdout, Data: []byte("forged")}))},
		{said("w.1", 0, fabric.InputAck{Done: 1, Next: 2, Limit: 9, Flags: fabric.FlagGap}.Append(nil)), said("w.2", 0, fabric.InputAck{Flags: fabric.FlagEnd}.Append(nil)), said("w.9", 0, nil), said("x.1", 0, nil)},
		{said("", 2, []byte(`{"min":1,"max":1,"boot":"b","link":1}`)), said("", 2, []byte(`{"boot":""}`))},
	} {
		f.Add(bytes.Join(messages, nil))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		g := &Fabric{
			log: slog.New(slog.DiscardHandler), warns: newWarns(), life: "life", pool: poolBytes,
			paired: func() []Paired { return []Paired{{ID: "evil"}, {ID: "n1"}} },
			peers:  map[string]*peer{}, waiting: map[uint64]waiter{}, streams: map[uint64]*stream{}, inputs: map[uint64]*input{},
			seen: map[string]string{},
		}
		// Of each of two nodes something was asked: 1 of the one that speaks, 2 of the other.
		processes, replies := [3]*process{}, [3]<-chan reply{}
		for n, id := range []string{1: "evil", 2: "n1"} {
			if id == "" {
				continue
			}
			p := &process{link: link{f: g, peer: g.peer(id), name: id}, info: origin.Info{Info: corral.Info{ID: "job"}}, known: make(chan struct{})}
			p.log.p = p
			processes[n] = p
			_, replies[n] = g.expect(p.peer)
			g.ids.Store(uint64(n - 1))
			s := p.log.open(0, false, 0)
			_ = s.first(1000)
			g.inputs[uint64(n)] = &input{p: p, n: uint64(n), total: 100, acks: make(chan fabric.InputAck, 64)}
		}
		for len(script) > 0 {
			k := min(int(script[0]), len(script)-1)
			subject := string(script[1 : 1+k])
			if script = script[1+k:]; len(script) < 3 {
				break
			}
			status, size := script[0], int(script[1])<<8|int(script[2])
			data := script[3:min(3+size, len(script))]
			script = script[3+len(data):]
			m := &nats.Msg{Subject: "fab.gw.life.evil." + subject, Data: bytes.Clone(data)}
			switch status {
			case 1:
				m.Header = nats.Header{"Status": {"503"}}
			case 2:
				m.Subject = fabric.HelloSubject("evil") + subject
				g.hello(m)
				continue
			}
			if strings.ContainsAny(subject, " \r\n\t") {
				continue // NATS has no such
			}
			g.receive(m)
		}
		s, other := g.streams[1], g.streams[2]
		if s.held > s.window || s.expected > fabric.MaxOffset+fabric.MaxData {
			t.Errorf("%d bytes are held, up to %d, and %d were granted", s.held, s.expected, s.granted)
		}
		if other.expected != 0 || other.err != nil || len(replies[2]) > 0 || len(g.inputs[2].acks) > 0 {
			t.Error("a node was believed about another")
		}
		if _, heard, _ := processes[2].peer.about(); !heard.IsZero() {
			t.Error("another node was heard")
		}
		buf := make([]byte, 100)
		for at := int64(0); ; {
			c, _, err := s.next(buf)
			if err != nil || len(c.Data) == 0 {
				break
			}
			if c.Offset < at {
				t.Fatalf("at %d after %d", c.Offset, at)
			}
			at = c.Next()
		}
	})
}
