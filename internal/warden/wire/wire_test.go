package wire

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"
)

func randomMessage(t *rapid.T) *Message {
	m := &Message{Type: Type(rapid.Uint64Range(1, 40).Draw(t, "type"))}
	v := reflect.ValueOf(m).Elem()
	for i := 1; i < v.NumField(); i++ {
		if !rapid.Bool().Draw(t, "set") {
			continue
		}
		switch f := v.Field(i); f.Kind() {
		case reflect.Uint64:
			f.SetUint(rapid.Uint64().Draw(t, "n"))
		case reflect.String:
			f.SetString(string(rapid.SliceOf(rapid.Byte()).Draw(t, "s")))
		case reflect.Slice:
			if f.Type().Elem().Kind() == reflect.String {
				f.Set(reflect.ValueOf(rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "list")))
			} else {
				f.SetBytes(rapid.SliceOfN(rapid.Byte(), 1, 2000).Draw(t, "bytes"))
			}
		}
	}
	return m
}

func TestMessageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := randomMessage(t)
		got, err := Parse(m.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, got); d != "" {
			t.Fatal(d)
		}
	})
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	b := (&Message{Type: Hello, Version: 7}).Append(nil)
	b = append(b, 0xfa, 0x3f, 3, 'n', 'e', 'w') // field 1023, bytes
	b = append(b, 0xf5, 0x3f, 1, 2, 3, 4)       // field 1022, fixed32
	m, err := Parse(b)
	if err != nil || m.Version != 7 {
		t.Fatalf("got %+v, %v", m, err)
	}
}

func TestParseErrors(t *testing.T) {
	for _, b := range []string{"", "\x08", "\x1a\x05ab", "\x07", "\x10\x01", "\x00", strings.Repeat("\x22\x00", MaxMessage)} {
		if m, err := Parse([]byte(b)); err == nil {
			t.Errorf("Parse(%.20q) = %+v, want an error", b, m)
		}
	}
}

// The description in wire.proto is what other implementations will read.
func TestProtoFileAgrees(t *testing.T) {
	text, err := os.ReadFile("wire.proto")
	if err != nil {
		t.Fatal(err)
	}
	fields := regexp.MustCompile(`(?m)^  (repeated )?(\w+) (\w+) = (\d+);`).FindAllStringSubmatch(string(text), -1)
	typ := reflect.TypeOf(Message{})
	if len(fields) != typ.NumField() {
		t.Fatalf("wire.proto has %d fields, Message %d", len(fields), typ.NumField())
	}
	for i, f := range fields {
		gf := typ.Field(i)
		if name := strings.ReplaceAll(f[3], "_", ""); !strings.EqualFold(name, gf.Name) || f[4] != fmt.Sprint(i+1) {
			t.Errorf("field %d is %s = %s in wire.proto and %s in Message", i+1, f[3], f[4], gf.Name)
		}
		if number := gf.Type.Kind() == reflect.Uint64; number != (f[2] == "uint64") {
			t.Errorf("field %s is %s in wire.proto and %s in Message", f[3], f[2], gf.Type)
		}
		// One field alone must come out under its number.
		var m Message
		switch v := reflect.ValueOf(&m).Elem().Field(i); v.Kind() {
		case reflect.Uint64:
			v.SetUint(1)
		case reflect.String:
			v.SetString("x")
		default:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		if n, _, _ := protowire.ConsumeTag(m.Append(nil)); int(n) != i+1 {
			t.Errorf("field %s is encoded as %d, not %d", f[3], n, i+1)
		}
	}
}

// What looks like parts of a delimiter, and what does not.
var parts = []string{stem, delimiter, stem + "\x00", stem[:1], stem[1:], stem[:6], "\x00", "\x01", "x"}

func TestStuffing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := []byte(strings.Join(rapid.SliceOf(rapid.SampledFrom(parts)).Draw(t, "p"), ""))
		s := stuff(append([]byte(delimiter), p...), len(delimiter))[len(delimiter):]
		stream := append(append([]byte(stem[:rapid.IntRange(0, len(stem)).Draw(t, "before")]), s...), delimiter...)
		if i := bytes.Index(append(bytes.Clone(s), delimiter...), []byte(delimiter)); i != len(s) {
			t.Fatalf("a delimiter at %d in %x", i, stream)
		}
		got, err := unstuff(s)
		if err != nil || !bytes.Equal(got, p) {
			t.Fatalf("%x, %v, want %x", got, err, p)
		}
	})
}

// Stems must not overlap, and must not contain what follows them.
func TestStem(t *testing.T) {
	for i := range len(stem) {
		if strings.Count(delimiter+"\x00", stem[i:i+1]) != 1 {
			t.Errorf("byte %d of the stem appears twice", i)
		}
	}
}

type nopCloser struct{}

func (nopCloser) Close() error { return nil }

// A writer that died anywhere in a frame costs at most that frame.
func TestFramesResynchronise(t *testing.T) {
	frame := func(req uint64) []byte {
		var b bytes.Buffer
		if err := NewFrames(nil, &b, nopCloser{}).Send(&Message{Type: OK, Req: req, Data: []byte("a\x00b")}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	whole := frame(1)
	for cut := 0; cut < len(whole); cut++ {
		if cut == len(whole)-len(delimiter) {
			continue // the next writer's first delimiter ends what is a whole message
		}
		for join := 0; join <= min(cut, 1); join++ { // the reader joins at the start, or one byte in
			stream := append(append([]byte(nil), whole[:cut]...), frame(2)...)
			stream = append(stream, frame(3)...)
			f := NewFrames(bytes.NewReader(stream[min(join, len(stream)):]), io.Discard, nopCloser{})
			m, _, err := f.Recv()
			if err != nil || m.Req != 2 {
				t.Fatalf("cut %d: got %+v, %v, want message 2", cut, m, err)
			}
			if m, _, err = f.Recv(); err != nil || m.Req != 3 {
				t.Fatalf("cut %d: got %+v, %v, want message 3", cut, m, err)
			}
		}
	}
}

func TestFramesStrict(t *testing.T) {
	var b bytes.Buffer
	w := NewFrames(nil, &b, nopCloser{})
	b.WriteString("junk" + delimiter)
	if err := w.Send(&Message{Type: OK}); err != nil {
		t.Fatal(err)
	}
	b.WriteString("junk" + delimiter)
	f := NewFrames(&b, io.Discard, nopCloser{})
	f.Strict = true
	if _, _, err := f.Recv(); err != nil {
		t.Fatalf("junk before the first frame: %v", err)
	}
	if _, _, err := f.Recv(); err == nil {
		t.Fatal("junk after the first frame was not reported")
	}
}

func TestFramesEnd(t *testing.T) {
	if _, _, err := NewFrames(strings.NewReader(""), nil, nopCloser{}).Recv(); err != io.EOF {
		t.Errorf("empty stream: %v", err)
	}
	if _, _, err := NewFrames(strings.NewReader("abc"), nil, nopCloser{}).Recv(); err != io.ErrUnexpectedEOF {
		t.Errorf("cut stream: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add((&Message{Type: Start, Req: 1, ID: "a", Args: []string{"sh", "-lc", "true"}, Env: []string{"A=b"}, Flags: FlagTTY}).Append(nil))
	f.Add((&Message{Type: Dial, Req: 2, Port: 65535, Timeout: 1e9}).Append(nil))
	f.Add((&Message{Type: Dialled, Req: 2}).Append(nil))
	f.Add((&Message{Type: Error, Req: 2, Code: CodeRefused, Text: "refused"}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		again, err := Parse(m.Append(nil))
		if err != nil || !cmp.Equal(m, again) {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}

// Whatever comes before a writer, and however the bytes arrive, all of its messages are
// received, as they were sent and in order, and nothing else is after them.
func FuzzFrames(f *testing.F) {
	var b bytes.Buffer
	w := NewFrames(nil, &b, nopCloser{})
	_ = w.Send(&Message{Type: Output, ID: "a", Data: []byte("hello\x00world")})
	_ = w.Send(&Message{Type: Exited, ID: "a"})
	f.Add(b.Bytes(), []byte("hello"), uint16(1))
	f.Add(b.Bytes()[:b.Len()-3], []byte(stem+delimiter), uint16(7))
	f.Add([]byte(delimiter+stem), []byte(strings.Join(parts, "")), uint16(100))
	f.Add([]byte(nil), bytes.Repeat([]byte(stem), 600), uint16(3000))
	f.Add([]byte(nil), bytes.Repeat([]byte(stem+"."), 600), uint16(3001))
	f.Fuzz(func(t *testing.T, before, data []byte, step uint16) {
		stream := bytes.NewBuffer(bytes.Clone(before))
		w := NewFrames(nil, stream, nopCloser{})
		w.Pack(step%2 == 0)
		var sent []*Message
		for _, m := range []*Message{{Type: Output, ID: "1", Data: data}, {Type: Input, ID: string(data[:len(data)/2])}, {Type: OK}} {
			if err := w.Send(m); err != nil {
				t.Fatal(err)
			}
			sent = append(sent, m)
		}
		var got []*Message
		for r := NewFrames(steps{stream, int(step) + 1}, io.Discard, nopCloser{}); ; {
			m, _, err := r.Recv()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			m.Data = bytes.Clone(m.Data)
			if got = append(got, m); len(got) > len(before)+len(sent) {
				t.Fatal("more messages than bytes")
			}
		}
		if len(got) < len(sent) {
			t.Fatalf("%d of %d messages", len(got), len(sent))
		}
		if d := cmp.Diff(sent, got[len(got)-len(sent):], cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

// steps reads at most n bytes at a time.
type steps struct {
	r io.Reader
	n int
}

func (s steps) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }
