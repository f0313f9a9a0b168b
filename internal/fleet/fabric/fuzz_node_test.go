package fabric

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

// fuzzOps are what a gateway of FuzzNode can ask for.
var fuzzOps = []Op{OpStart, OpAttach, OpDecide, OpWait, OpStat, OpSignal, OpResize, OpEOF, OpRemove, OpOpen, OpRead, OpWrite, "other", OpDial}

// A step of FuzzNode is [what][sequence number][length u16][body].
func step(what, seq byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{what, seq}, uint16(len(body))), body...)
}

// A gateway has its key, and says whatever it likes: the node neither dies nor
// hangs, nothing is left over, and each request is acted upon once.
func FuzzNode(f *testing.F) {
	key, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, bytes.Repeat([]byte{1}, 32))
	if err != nil {
		f.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		f.Fatal(err)
	}
	signer, err := NewSigner(key)
	if err != nil {
		f.Fatal(err)
	}
	start := func(text string) []byte {
		b, err := EncodeStart("main", corral.Command{ID: "job", Shell: text, Stdin: true}, &Grant{Reader: 1, Limit: 100})
		if err != nil {
			f.Fatal(err)
		}
		return step(0, 1, b)
	}
	input := func(in Input) []byte { return in.Append(nil) }
	const parts, unsigned, sweep = 0x40, 0x80, 0xff
	for _, steps := range [][][]byte{
		{start("cat"), step(9, 2, input(Input{Write: 1, Total: 6, Data: []byte("abc")})), step(11, 3, input(Input{Write: 1, Total: 6, Off: 3, Data: []byte("def")})), step(7, 4, nil), step(3, 5, nil)},
		{start("cat"), step(9, 2, input(Input{Write: 1, Total: 6, Data: []byte("abc")})), step(11, 3, input(Input{Write: 1, Total: 6, Abort: true})), step(8, 4, nil)},
		{start("print"), start("print"), step(10, 2, []byte(`{"reader":2,"limit":9}`)), step(10, 3, []byte(`{"reader":2,"from":1,"limit":9,"reset":true}`)), step(10, 4, []byte(`{"reader":2,"close":true}`)), step(1, 5, nil), step(4, 6, nil)},
		{start("cat"), step(5, 2, []byte(`{"signal":9}`)), step(6, 3, []byte(`{"rows":1,"cols":2}`)), step(10, 4, []byte(`{"reader":7,"single":true}`)), step(2, 5, []byte("{}")), step(12, 6, nil)},
		{step(parts, 1, []byte("a large one")), step(sweep, 0, nil)},
		{step(unsigned, 0, []byte("{}")), step(unsigned+1, 0, []byte{1, 'l', 0}), step(unsigned+2, 0, nil), step(unsigned+3, 0, nil)},
	} {
		f.Add(bytes.Join(steps, nil))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		x := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"cat": fakeexec.Cat, "print": fakeexec.Print("printed", "", 3)}}
		n, err := newNode(&Link{}, NodeConfig{ID: "n1", Executor: x, GatewayKeys: []string{public}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		n.ctx = ctx
		say := func(subject string, data []byte) { n.receive(&nats.Msg{Subject: subject, Data: data}) }
		starts := map[byte]bool{}
		for len(script) >= 4 {
			what, seq, size := script[0], script[1], int(binary.BigEndian.Uint16(script[2:]))
			body := script[4:min(4+size, len(script))]
			script = script[4+len(body):]
			switch {
			case what == sweep:
				n.mu.Lock()
				n.sweepParts(time.Now().Add(time.Hour))
				n.mu.Unlock()
			case what >= unsigned:
				say([]string{RequestSubject("n1"), PartSubject("n1"), WhoSubject("n1"), "fab.n.n1.x"}[what%4], body)
			default:
				op := fuzzOps[int(what&^parts)%len(fuzzOps)]
				if op == OpStart {
					starts[seq] = true
				}
				if what&parts != 0 { // a large body, of which the fuzzer says the beginning
					body = append(bytes.Clone(body), bytes.Repeat([]byte(" "), MaxData)...)
				}
				m, err := signer.Seal(Header{
					Version: Version, Node: "n1", Boot: n.boot, Epoch: n.epoch(), Life: "life", Seq: uint64(seq), Op: op, ID: "job",
				}, body)
				if err != nil {
					t.Fatal(err)
				}
				say(RequestSubject("n1"), m[0])
				for _, part := range m[1:] {
					say(PartSubject("n1"), part)
				}
			}
		}
		n.mu.Lock()
		n.closed = true
		n.mu.Unlock()
		cancel()
		n.owned.Wait()
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if x.Starts() > len(starts) {
			t.Errorf("%d requests to start something started %d", len(starts), x.Starts())
		}
		n.sweepParts(time.Now().Add(time.Hour))
		if len(n.readers) > 0 || n.open != 0 || n.turns.Len() > 0 || n.requests != 0 || len(n.starts) > 0 || len(n.parts) > 0 || n.partSize != 0 || n.bigs != 0 {
			t.Errorf("left over: %d readers, %d writes, %d turns, %d requests, %d starts, %d parts of %d bytes, %d buffers",
				len(n.readers), n.open, n.turns.Len(), n.requests, len(n.starts), len(n.parts), n.partSize, n.bigs)
		}
	})
}
