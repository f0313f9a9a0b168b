package fabric

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
)

// fill sets everything in v to something that is not zero, each to something else.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(strings.Repeat("x", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint16, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n)
	case reflect.Map:
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, k, n)
		fill(t, e, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(k, e)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(*n), 5).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	default:
		t.Fatalf("nothing is put into a %s", v.Type())
	}
}

// What is said under an agreement says all that JSON does: also what is added
// later to a command, an answer or a grant.
func TestBinarySaysAll(t *testing.T) {
	n := 0
	var s StartRequest
	fill(t, reflect.ValueOf(&s).Elem(), &n)
	s.Command.Decided.Fresh, s.Command.Decided.Exec, s.Command.Domain = false, nil, nil // which do not travel: a node makes a domain itself
	for _, agreed := range []bool{true, false} {
		b, err := s.Encode(agreed)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseStart(b)
		if err != nil || !reflect.DeepEqual(got, s) || isJSON(b) == agreed {
			t.Errorf("agreed %t: %+v\nand not %+v: %v", agreed, got, s, err)
		}
	}
	var a Answer
	fill(t, reflect.ValueOf(&a).Elem(), &n)
	a.Decision, a.Refused, a.Error, a.Epoch = nil, "", nil, 0 // which are said in JSON
	a.Info.Digest = ""                                        // which Answer.Digest says
	b, ok := a.binary()
	got, err := decodeAnswer(b)
	if !ok || err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v\nand not %+v: %v", got, a, err)
	}
	var g Grant
	fill(t, reflect.ValueOf(&g).Elem(), &n)
	for _, agreed := range []bool{true, false} {
		b, err := g.Encode(agreed)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseGrant(b); err != nil || got != g {
			t.Errorf("%+v, and not %+v: %v", got, g, err)
		}
	}
}

// What is zero, empty or before 1970 comes back as it was.
func TestBinaryExtremes(t *testing.T) {
	for _, s := range []StartRequest{
		{},
		{Command: corral.Command{ID: "job", Args: []string{"", "a", ""}, Grace: -1, TTY: &corral.Size{}, Env: map[string]string{"A": "", "B": "x=y\xff"}}},
		{Command: corral.Command{Shell: "\xff\x00", PathPrepend: []string{""}}, Read: &Grant{}},
	} {
		got, err := decodeStart(s.binary())
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%+v\nand not %+v: %v", got, s, err)
		}
	}
	for _, a := range []Answer{
		{Boot: "b"},
		{Boot: "b", Info: &origin.Info{Info: corral.Info{}}},
		{Boot: "b", Exit: &corral.Exit{Code: -1, Signal: corral.SIGKILL, Reason: corral.ReasonTimeout, EndedAt: time.Unix(-5, 0).UTC()}},
		{Boot: "b", Stat: &corral.LogStat{}},
	} {
		b := encodeAnswer(a, true)
		got, err := decodeAnswer(b)
		if err != nil || !reflect.DeepEqual(got, a) || isJSON(b) {
			t.Errorf("%+v\nand not %+v: %v", got, a, err)
		}
	}
	for _, a := range []Answer{
		{Boot: "b", Refused: RefusedKey}, {Boot: "b", Epoch: 1}, {Boot: "b", Decision: json.RawMessage("{}")},
		{Boot: "b", Error: EncodeError(corral.ErrLost)},
		{Boot: "b", Info: &origin.Info{Info: corral.Info{Warnings: []string{strings.Repeat("x", MaxAnswer)}}}},
	} {
		if b := encodeAnswer(a, true); !isJSON(b) {
			t.Errorf("%+v is said as %q", a, b)
		}
	}
	a, err := ParseAnswer(encodeAnswer(Answer{Boot: "b", Info: &origin.Info{Info: corral.Info{ID: "job", Dir: "/a\xff"}}}, true))
	if err != nil || a.Info.Dir != "/a\ufffd" {
		t.Errorf("%+v, %v", a.Info, err)
	}
}

// What a node calls the variables that its commands do not get is its own affair:
// a gateway passes on one short line of it.
func TestHostileNotice(t *testing.T) {
	for _, binary := range []bool{true, false} {
		a := Answer{Boot: "b", Info: &origin.Info{Info: corral.Info{ID: "job", Notice: "X\x1b]52;c;eA\a\n" + strings.Repeat("N", 3*corral.MaxNotice)}}}
		got, err := ParseAnswer(encodeAnswer(a, binary))
		if err != nil || len(got.Info.Notice) > corral.MaxNotice || !strings.HasPrefix(got.Info.Notice, "X ]52;c;eA  NNN") {
			t.Errorf("binary %t: %+v, %v", binary, got.Info, err)
		}
	}
}

// A binary start is no way around what a message may hold.
func TestBinaryStartIsBounded(t *testing.T) {
	s := StartRequest{Command: corral.Command{ID: "job", Args: make([]string, MaxData)}}
	s.Command.Args[0] = "a"
	if _, _, _, err := DecodeStart(s.binary()); err == nil {
		t.Error("a start of more than one message is taken")
	}
	for _, b := range [][]byte{{0x2a, 1, 'A'}, {0x2a, 2, 'A', '=', 0x2a, 2, 'A', '='}, {0xca, 1, 1, 0xff}, {0xff}, {0x0a, 200}, {0x08}} {
		if _, err := decodeStart(b); err == nil {
			t.Errorf("%x is taken", b)
		}
	}
	if _, err := decodeStart(append(bytes.Clone([]byte{0xf8, 0x3f, 1, 0xfd, 0x3f, 0, 0, 0, 0}), s.binary()[:5]...)); err != nil {
		t.Errorf("fields that are not known: %v", err)
	}
}
