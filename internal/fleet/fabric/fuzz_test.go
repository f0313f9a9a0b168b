package fabric

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"pgregory.net/rapid"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/decided"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/packed"
)

func sealed(tb testing.TB, size int) ([][]byte, nkeys.KeyPair) {
	key, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, bytes.Repeat([]byte{1}, 32))
	if err != nil {
		tb.Fatal(err)
	}
	s, err := NewSigner(key)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := s.Seal(Header{Version: 1, Node: "n1", Boot: "b", Life: "l", Seq: 1, Epoch: 1, Op: OpStart, ID: "job"}, make([]byte, size))
	if err != nil {
		tb.Fatal(err)
	}
	return m, key
}

// No envelope but those that were signed hold.
func FuzzEnvelope(f *testing.F) {
	m, key := sealed(f, 100)
	large, _ := sealed(f, MaxData+1)
	for _, b := range [][]byte{m[0], large[0], m[0][:10], {0xff, 0xff}, nil} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseEnvelope(bytes.Clone(b))
		if err != nil {
			return
		}
		if e.Size < 0 || e.Size > MaxBody || !e.InParts() && len(e.Body) != e.Size {
			t.Fatalf("%+v", e.Header)
		}
		// Ed25519 signatures of RFC 8032 are not malleable.
		if e.Verify(key) == nil && !bytes.Equal(b, m[0]) && !bytes.Equal(b, large[0]) {
			t.Fatalf("%q holds", b)
		}
	})
}

func FuzzPart(f *testing.F) {
	m, _ := sealed(f, 2*MaxData)
	f.Add(m[1])
	f.Add([]byte{3, 'a'})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePart(b)
		if err == nil && !bytes.Equal(p.append(nil), b) {
			t.Fatalf("%+v", p)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	for _, a := range []Answer{
		{Boot: "b"}, {Boot: "b", Exit: &corral.Exit{Code: 3, Reason: corral.ReasonExited}},
		{Boot: "b", Stat: &corral.LogStat{Size: 9, GapStart: 1, GapEnd: 4}}, {Boot: "b", Info: &origin.Info{Info: corral.Info{ID: "job", Warnings: []string{"a"}}}},
		{Boot: "b", Decision: json.RawMessage(`{"decision":{"decision":"ask"}}`)},
		{Boot: "b", Error: EncodeError(corral.Errorf(corral.ErrDir, "hint", "text"))},
	} {
		f.Add(EncodeAnswer(a))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ParseAnswer(b)
		if err != nil {
			return
		}
		e := EncodeAnswer(a)
		if len(e) > MaxAnswer {
			t.Fatalf("%+v is too long", a)
		}
		if again, err := ParseAnswer(e); err != nil || !bytes.Equal(EncodeAnswer(again), e) {
			t.Fatalf("%+v came back as %+v, %v", a, again, err)
		}
		if e := a.Exit; e != nil && (e.Code < -1 || e.Code > 255 || e.Code == -1 && e.Signal == 0) {
			t.Fatalf("%+v", e)
		}
		if a.Error != nil && DecodeError(a.Error) == nil {
			t.Fatal("no error")
		}
	})
}

func FuzzOutput(f *testing.F) {
	f.Add(Output{From: 3, Offset: 5, Stream: corral.Stderr, Data: []byte("text")}.Append(nil))
	f.Add(Output{From: 3, Offset: 3, Flags: FlagEnd}.Append(nil))
	f.Add(Output{Flags: FlagError, Data: encodeError(corral.ErrLost)}.Append(nil))
	for _, size := range []int{5000, MaxData, MaxData + 1} {
		block, _ := packed.Append(nil, bytes.Repeat([]byte("text\n"), size)[:size])
		f.Add(Output{Offset: 9, Flags: flagPacked, Stream: corral.Stdout, Data: block}.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := ParseOutput(b)
		if err != nil {
			return
		}
		same := bytes.Equal(o.Append(nil), b) || b[16] == flagPacked && o.Flags == 0
		if o.From < 0 || o.Offset < o.From || o.Offset+int64(len(o.Data)) < o.Offset || len(o.Data) > MaxData && o.Flags == 0 || !same {
			t.Fatalf("%+v", o)
		}
		if o.Flags&FlagError != 0 && o.Err() == nil {
			t.Fatal("no error")
		}
	})
}

func FuzzInput(f *testing.F) {
	f.Add(Input{Write: 1, Total: 10, Off: 3, Data: []byte("text")}.Append(nil))
	f.Add(Input{Write: 1, Total: 10, Abort: true}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := ParseInput(b)
		if err == nil && (in.Off < 0 || in.Off+int64(len(in.Data)) > in.Total) {
			t.Fatalf("%+v", in)
		}
	})
}

func FuzzInputAck(f *testing.F) {
	f.Add(InputAck{Done: 1, Next: 2, Limit: 9, Flags: FlagGap}.Append(nil), int64(9))
	f.Add(InputAck{Flags: FlagEnd | FlagError, Data: encodeError(corral.ErrEnded)}.Append(nil), int64(9))
	f.Fuzz(func(t *testing.T, b []byte, total int64) {
		total = max(total, 0)
		a, err := ParseInputAck(b, total)
		if err == nil && (a.Done < 0 || a.Next < a.Done || a.Next > total || a.Limit < 0) {
			t.Fatalf("%+v of %d", a, total)
		}
	})
}

func FuzzGrant(f *testing.F) {
	f.Add([]byte(`{"reader":1,"from":2,"limit":3,"most":4,"reset":true}`))
	f.Add([]byte(`{"from":-1}`))
	f.Add(Grant{Reader: 1, From: 2, Limit: 3, Most: 4, Reset: true, Single: true, Close: true}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := ParseGrant(b)
		if err == nil && (g.From < 0 || g.Limit < 0 || g.Most < 1 || g.Most > MaxData) {
			t.Fatalf("%+v", g)
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add([]byte(`{"min":1,"max":1,"boot":"b","link":3,"every":5000,"program":"1.0","features":["a"]}`))
	f.Add([]byte(`{"min":2,"max":1,"boot":""}`))
	f.Add([]byte(`{"min":1,"max":1,"boot":"b","epoch":18446744073709551615}`))
	f.Add([]byte(`{"min":1,"max":1,"boot":"b","epoch":-1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHelloBody(b)
		if err == nil && (h.Interval() < 10*time.Millisecond || h.Interval() > time.Minute) {
			t.Fatalf("%+v", h)
		}
	})
}

func FuzzStart(f *testing.F) {
	for _, cmd := range []corral.Command{{ID: "job", Shell: "echo <&>"}, {ID: "job", Args: []string{"a", "\xff"}, Decided: decided.About{Grant: []byte(`{"approval":"a"}`)}}} {
		b, err := EncodeStart("main", cmd, &Grant{Limit: 9})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		agent, cmd, read, err := DecodeStart(b)
		if err != nil {
			return
		}
		if agent != "" && corral.ValidateID(agent) != nil || len(cmd.Decided.Grant) > MaxGrant {
			t.Fatalf("agent %q, grant %q", agent, cmd.Decided.Grant)
		}
		again, err := EncodeStart(agent, cmd, read)
		if err != nil {
			t.Fatal(err)
		}
		who, got, _, err := DecodeStart(again)
		if err != nil || who != agent || got.Digest() != cmd.Digest() || !bytes.Equal(got.Decided.Grant, cmd.Decided.Grant) {
			t.Fatalf("%+v came back as %+v, %v", cmd, got, err)
		}
	})
}

func FuzzSubject(f *testing.F) {
	f.Add(ToGateway("life", "n1", KindOutput, 7))
	f.Add("fab.gw.life.n1.a.")
	f.Fuzz(func(t *testing.T, s string) {
		node, kind, n, ok := ParseToGateway("life", s)
		if ok && ValidateNodeID(node) != nil {
			t.Fatalf("%q %c %d", node, kind, n)
		}
		if node, ok := ParseHello(s); ok && HelloSubject(node) != s {
			t.Fatalf("%q", node)
		}
	})
}

// A window is a set; numbers that are too old count as members.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 128
		w, used, top := newWindow(size), map[uint64]bool{}, uint64(0)
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			low := uint64(1)
			if top > 2*size {
				low = top - 2*size
			}
			n := rapid.Uint64Range(low, top+2*size).Draw(t, "number")
			if rapid.IntRange(0, 3).Draw(t, "near") > 0 {
				n = rapid.Uint64Range(low, top+3).Draw(t, "number")
			}
			want := used[n] || n+size <= top
			if got := w.used(n); got != want {
				t.Fatalf("%d of %d: used %v, want %v", n, top, got, want)
			}
			if !want {
				w.use(n)
				used[n] = true
				top = max(top, n)
			}
		}
	})
}

// A life is not forgotten while the epoch of one of its requests may be known.
func TestLives(t *testing.T) {
	var r replays
	now := time.Unix(1000, 0)
	take := func(life string, seq uint64) verdict {
		return r.record(&Header{Key: "K", Life: life, Seq: seq, Op: OpStart}, now)
	}
	for i := range maxLives {
		if v := take(string(rune('a'+i%26))+string(rune('a'+i/26)), 1); v != fresh {
			t.Fatalf("life %d: %v", i, v)
		}
	}
	if v := take("more", 1); v != full {
		t.Fatalf("one more: %v", v)
	}
	now = now.Add(epochLife)
	if v := take("more", 1); v != full {
		t.Fatalf("one more, while the others may hold: %v", v)
	}
	if v := take("aa", 1); v != again {
		t.Fatalf("the first: %v", v)
	}
	now = now.Add(time.Second)
	if v := take("more", 1); v != fresh {
		t.Fatalf("one more, later: %v", v)
	}
}

// An epoch is known for a while, by whichever clock is faster.
func TestEpochs(t *testing.T) {
	var e epochs
	start := time.Now()
	first := e.now(start)
	if first == 0 || e.now(start.Add(epochEvery-1)) != first || !e.knows(first, start.Add(epochLife)) {
		t.Fatalf("%+v", e)
	}
	second := e.now(start.Add(epochEvery))
	if second == first || !e.knows(first, start.Add(epochLife)) || e.knows(first, start.Add(epochLife+1)) || e.knows(0, start) || e.knows(second+1, start) {
		t.Fatalf("%+v", e)
	}
	at := start.Add(epochEvery)
	for range 1000 {
		at = at.Add(epochEvery / 2)
		e.now(at)
	}
	if len(e) > int(epochLife/epochEvery)+1 || e.knows(second, at) {
		t.Errorf("%d are known", len(e))
	}
	// The clock on the wall is set, which time.Time has no way to say but by
	// doing without the other.
	n := e.now(at)
	if back := at.Round(0).Add(-time.Hour); !e.knows(n, back) || e.now(back) != n {
		t.Error("a clock that is set back begins another epoch")
	}
	if ahead := at.Round(0).Add(time.Hour); e.knows(n, ahead) || e.now(ahead) == n {
		t.Error("after a machine has slept, the epoch is the same")
	}
}

// The answers that are kept are bounded.
func TestAnswersAreBounded(t *testing.T) {
	var r replays
	now := time.Unix(1000, 0)
	for i := range uint64(20_000) {
		h := &Header{Key: "K", Life: "l", Seq: i + 1, Op: OpAttach}
		if r.record(h, now) != fresh {
			t.Fatal(i)
		}
		r.note(h, make([]byte, 2000))
	}
	l := r.lives["K.l"]
	if r.bytes > maxAnswersLen || len(r.fifo) > maxAnswers || len(l.answers) != len(r.fifo) {
		t.Errorf("%d bytes, %d answers, %d in order", r.bytes, len(l.answers), len(r.fifo))
	}
}
