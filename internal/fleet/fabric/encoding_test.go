package fabric

import (
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

// All of a command, an answer and a grant travels: also what is added to them later.
func TestEncodingSaysAll(t *testing.T) {
	n := 0
	var s Start
	fill(t, reflect.ValueOf(&s.Command).Elem(), &n)
	s.Command.Decided.Fresh, s.Command.Decided.Exec, s.Command.Domain = false, nil, nil // a node makes its own
	s.Agent, s.Read = "agent", new(Grant)
	fill(t, reflect.ValueOf(s.Read).Elem(), &n)
	b, err := EncodeStart(s.Agent, s.Command, s.Read)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseStart(b)
	if err != nil || !reflect.DeepEqual(got.Command, s.Command) || got.Agent != s.Agent || !reflect.DeepEqual(got.Read, s.Read) {
		t.Errorf("%+v\nand not %+v: %v", got, s, err)
	}
	var a Answer
	fill(t, reflect.ValueOf(&a).Elem(), &n)
	a.Decision, a.Error = json.RawMessage(`{"decision":"ask"}`), EncodeError(corral.ErrLost)
	a.Boot = "b"
	a.Exit.Signal, a.Exit.Code, a.Exit.Reason = corral.SIGKILL, -1, corral.ReasonTimeout
	*a.Stat = corral.LogStat{Size: 9, GapStart: 1, GapEnd: 4, Ended: true}
	a.Info.Digest = "" // which Answer.Digest says
	if got, err := ParseAnswer(EncodeAnswer(a)); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v\nand not %+v: %v", got, a, err)
	}
	var g Grant
	fill(t, reflect.ValueOf(&g).Elem(), &n)
	if got, err := ParseGrant(g.Encode()); err != nil || got != g {
		t.Errorf("%+v, and not %+v: %v", got, g, err)
	}
}

// What is zero, empty, not UTF-8 or before 1970 comes back as it was.
func TestEncodingExtremes(t *testing.T) {
	for _, cmd := range []corral.Command{
		{},
		{ID: "job", Args: []string{"", "a", ""}, Grace: -1, TTY: &corral.Size{}, Env: map[string]string{"A": "", "B": "x=y\xff"}},
		{Shell: "\xff\x00", PathPrepend: []string{""}},
	} {
		b, err := EncodeStart("", cmd, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseStart(b); err != nil || !reflect.DeepEqual(got.Command, cmd) {
			t.Errorf("%+v\nand not %+v: %v", got.Command, cmd, err)
		}
	}
	for _, a := range []Answer{
		{Boot: "b"},
		{Boot: "b", Info: &origin.Info{}},
		{Boot: "b", Exit: &corral.Exit{Code: -1, Signal: corral.SIGKILL, Reason: corral.ReasonTimeout, EndedAt: time.Unix(-5, 0).UTC()}},
		{Boot: "b", Stat: &corral.LogStat{}},
	} {
		if got, err := ParseAnswer(EncodeAnswer(a)); err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("%+v\nand not %+v: %v", got, a, err)
		}
	}
	exit := corral.Exit{Reason: corral.ReasonExited, Refused: make([]string, 2*maxRefused), EndedAt: time.Unix(5, 0).In(time.FixedZone("", 3600))}
	a, err := ParseAnswer(EncodeAnswer(Answer{Boot: "b", Exit: &exit}))
	if err != nil || len(a.Exit.Refused) != maxRefused || a.Exit.EndedAt != exit.EndedAt.UTC() {
		t.Errorf("%+v, %v", a.Exit, err)
	}
	a, err = ParseAnswer(EncodeAnswer(Answer{Boot: "b", Info: &origin.Info{Info: corral.Info{ID: "job", Dir: "/a\xff"}}}))
	if err != nil || a.Info.Dir != "/a\ufffd" {
		t.Errorf("%+v, %v", a.Info, err)
	}
}

// What a node calls the variables that its commands do not get is its own affair:
// a gateway passes on one short line of it.
func TestHostileNotice(t *testing.T) {
	a := Answer{Boot: "b", Info: &origin.Info{Info: corral.Info{ID: "job", Notice: "X\x1b]52;c;eA\a\n" + strings.Repeat("N", 3*corral.MaxNotice)}}}
	got, err := ParseAnswer(EncodeAnswer(a))
	if err != nil || len(got.Info.Notice) > corral.MaxNotice || !strings.HasPrefix(got.Info.Notice, "X ]52;c;eA  NNN") {
		t.Errorf("%+v, %v", got.Info, err)
	}
}

// Times that no clock shows are refused; some of them have no JSON in UTC.
func TestHostileTimes(t *testing.T) {
	for at, ok := range map[string]bool{
		"9999-12-31T23:59:59-10:00": false, "0001-01-01T00:00:00+10:00": false, "2151-01-01T00:00:00Z": false, "1899-12-31T23:59:59Z": false,
		"0001-01-01T00:00:00Z": true, "1970-01-01T00:00:00Z": true, "2026-11-27T12:00:00+14:00": true, "2150-12-31T23:59:59Z": true,
	} {
		for _, answer := range []string{
			`{"boot":"b","info":{"id":"job","startedAt":"` + at + `"}}`,
			`{"boot":"b","exit":{"exitCode":0,"reason":"exited","startedAt":"` + at + `","endedAt":"2026-11-27T12:00:00Z"}}`,
			`{"boot":"b","exit":{"exitCode":0,"reason":"exited","startedAt":"2026-11-27T12:00:00Z","endedAt":"` + at + `"}}`,
		} {
			if a, err := ParseAnswer([]byte(answer)); (err == nil) != ok {
				t.Errorf("%s: %+v, %v", answer, a, err)
			}
		}
	}
}

// Output that is neither an end nor an error is bytes of a stream that there is,
// whatever other flags it has.
func TestOutputOfNoStream(t *testing.T) {
	for flags := range 256 {
		o := Output{Flags: byte(flags), Stream: 9, Data: []byte("text")}
		if got, err := ParseOutput(o.Append(nil)); err == nil && got.Flags&(FlagEnd|FlagError) == 0 {
			t.Errorf("%+v", got)
		}
	}
}
