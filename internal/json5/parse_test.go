package json5

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// What the specification allows beyond JSON, each piece by itself.
func TestValues(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`null`, `null`}, {`true`, `true`}, {` false `, `false`},
		{`{}`, `{}`}, {`[]`, `[]`}, {`[1,]`, `[1]`}, {`{a:1,}`, `{"a":1}`}, {`[ 1 , [ 2 , ] , ]`, `[1,[2]]`},
		{`{$a_1: 1, _: 2, ünï: 3, ａ: 4, "b c": 5, 'd"': 6, null: 7, true: 8, NaN: 9}`,
			`{"$a_1":1,"_":2,"ünï":3,"ａ":4,"b c":5,"d\"":6,"null":7,"true":8,"NaN":9}`},
		{`{\u0061b: 1, a\u200c: 2}`, `{"ab":1,"a` + "\u200c" + `":2}`},
		{`{__proto__: 1}`, `{"__proto__":1}`},
		// numbers
		{`0`, `0`}, {`-0`, `-0`}, {`+1`, `1`}, {`.5`, `0.5`}, {`5.`, `5`}, {`-.5e-1`, `-0.05`}, {`5.e1`, `50`}, {`1E+2`, `100`},
		{`0x1F`, `31`}, {`-0XfF`, `-255`}, {`0xe`, `14`}, {`0x1e`, `30`}, {`0.0`, `0`}, {`123456789`, `123456789`},
		// strings
		{`'a"b'`, `"a\"b"`}, {`"a'b"`, `"a'b"`}, {`'it\'s'`, `"it's"`}, {`"\b\f\n\r\t\v\0\x41\u00e9"`, `"\b\f\n\r\t\u000b\u0000Aé"`},
		{"'a\\\nb'", `"ab"`}, {"'a\\\r\nb'", `"ab"`}, {"'a\\\rb'", `"ab"`}, {"'a\\\u2028b\\\u2029c'", `"abc"`}, {"'a\u2028b'", `"a\u2028b"`},
		{`'\a\c\/\\'`, `"ac/\\"`}, {`"\ud83d\ude00"`, `"😀"`}, {`"<&>"`, `"<&>"`}, {`"\0a"`, `"\u0000a"`}, {"'\t'", `"\t"`},
		// blank space and comments
		{"\ufeff\u00a0\u2003\v\f[1]\u2028", `[1]`}, {"// a\n1 // b", `1`}, {"/* a \n * b */1/**/", `1`}, {"//a\r1", `1`}, {"//a\u20281", `1`}, {`[/*a*/1/*b*/,/*c*/]`, `[1]`},
		{"{a/**/:/**/1/**/}", `{"a":1}`}, {`"/* no comment */"`, `"/* no comment */"`}, {"/***/1", "1"},
	} {
		d, err := Parse([]byte(tc.text))
		if err != nil {
			t.Errorf("%q: %v", tc.text, err)
			continue
		}
		if got := string(d.Root.JSON()); got != tc.want {
			t.Errorf("%q: %s, want %s", tc.text, got, tc.want)
		}
	}
	for text, want := range map[string]float64{"Infinity": math.Inf(1), "-Infinity": math.Inf(-1), "+Infinity": math.Inf(1), "NaN": math.NaN(), "-NaN": math.NaN()} {
		d, err := Parse([]byte(text))
		if err != nil || d.Root.Kind != Number || fmt.Sprint(d.Root.Number) != fmt.Sprint(want) || string(d.Root.JSON()) != "null" {
			t.Errorf("%s: %+v, %v", text, d, err)
		}
	}
}

// Every refusal names its place.
func TestRefusals(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	if _, err := Parse([]byte(deep(MaxDepth))); err != nil {
		t.Errorf("%d levels: %v", MaxDepth, err)
	}
	for _, tc := range []struct{ text, at, says string }{
		{"", "1:1", "ends where a value"}, {" // x", "1:6", "ends where a value"},
		{"{", "1:2", "the end of the text where a key"}, {"[1", "1:3", "where ',' or ']'"}, {"{a:1", "1:5", "where ',' or '}'"},
		{"{a 1}", "1:4", "where ':' is expected after the key \"a\""}, {"{a:}", "1:4", "where a key or a value"}, {"{,}", "1:2", "',' where a key"}, {"[,]", "1:2", "','"}, {"[1,,]", "1:4", "','"}, {"[1 2]", "1:4", "where ','"},
		{"{a:1,\n a:2}", "2:2", "the key \"a\" is there already, in line 1"}, {"{a:1, \"a\":2}", "1:7", "already"}, {`{a:1, \u0061:2}`, "1:7", "already"},
		{"1 1", "1:3", "after the end"}, {"{}}", "1:3", "after the end"},
		{"{1a: 1}", "1:2", "where a key"}, {"{a-b: 1}", "1:3", "':' is expected"}, {"yes", "1:1", "yes is no value; a string needs quotes"}, {"{a:\nful}", "2:1", "ful is no value"}, {`nul\u006c`, "1:1", "no value"},
		{"01", "1:1", "01 is no number"}, {"0x", "1:1", "no number"}, {"0xg", "1:1", "no number"}, {"1e", "1:1", "no number"}, {"1e+", "1:1", "no number"}, {".", "1:1", "no number"}, {"+", "1:1", "no number"}, {"--1", "1:1", "no number"}, {"1.2.3", "1:1", "1.2.3 is no number"}, {"1_000", "1:1", "1_000 is no number"}, {"1a", "1:1", "no number"}, {"0b1", "1:1", "no number"}, {"0x1p3", "1:1", "no number"}, {"1e999", "1:1", "too large"}, {"+ 1", "1:1", "no number"}, {"-a", "1:1", "no number"}, {"-Infinit", "1:1", "no number"}, {"1e5.", "1:1", "no number"}, {"12m", "1:1", "12m is no number"},
		{"'a", "1:1", "has no end"}, {"'a\nb'", "1:3", "the line ends in a string"}, {"'\\", "1:1", "no end"}, {`"\1"`, "1:2", "before a digit"}, {`"\01"`, "1:2", "before a digit"}, {`"\x4"`, "1:4", "2 hexadecimal"}, {`"\u12"`, "1:4", "4 hexadecimal"}, {`"\u+123"`, "1:4", "4 hexadecimal"}, {`"\ud83d"`, "1:2", "half of a surrogate"}, {`"\ude00\ud83d"`, "1:2", "half of a surrogate"},
		{"/* a", "1:1", "no end"}, {"[/ 1]", "1:2", "comments are"}, {"#", "1:1", "'#'"},
		{"{\\x: 1}", "1:2", `no \uXXXX`}, {`{\u0020: 1}`, "1:2", "cannot be in a name"},
		{"{é: \x80}", "1:5", "0x80 is not UTF-8"},
		{deep(MaxDepth + 1), fmt.Sprintf("1:%d", MaxDepth+1), "more than 64"},
		{strings.Repeat(" ", MaxSize+1), "1:1", "bytes"},
		{"[\r\n1,\r2,\n\"é\", x]", "4:6", "x is no value"},
	} {
		_, err := Parse([]byte(tc.text))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Position.String() != tc.at || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%.60q: %v, want %s: … %s", tc.text, err, tc.at, tc.says)
		}
	}
}

// A text of one endless token is read in linear time.
func TestLongTokens(t *testing.T) {
	for _, text := range []string{strings.Repeat("9", MaxSize), "0x" + strings.Repeat("f", MaxSize-2), strings.Repeat("a", MaxSize), "'" + strings.Repeat("a", MaxSize-1), "//" + strings.Repeat("/", MaxSize-2), "[" + strings.Repeat("1,", MaxSize/2-1)} {
		if _, err := Parse([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "1:") {
			t.Errorf("%.10s…: no error in line 1", text)
		}
	}
}

// Every value and key knows its place.
func TestSpans(t *testing.T) {
	text := "{ // c\n  tools : { exec: { 'ask': \"off\", list: [ 1, 0x2 ,null] } },\n}\n"
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"": text[:len(text)-1], "tools": "{ exec: { 'ask': \"off\", list: [ 1, 0x2 ,null] } }",
		"tools.exec.ask": `"off"`, "tools.exec.list[1]": "0x2", "tools.exec.list[2]": "null",
	} {
		p, err := ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		v := d.Root.Find(p)
		if v == nil || text[v.Start:v.End] != want {
			t.Errorf("%s: %+v, want %q", path, v, want)
		}
	}
	ask := d.Root.Get("tools").Get("exec").Member("ask")
	if got := text[ask.Start:ask.End]; got != "'ask'" || d.Position(ask.Start) != (Position{2, 21}) {
		t.Errorf("the key is %s at %v", got, d.Position(ask.Start))
	}
	for _, path := range []string{"x", "tools[0]", "tools.exec.list[3]", "tools.exec.list.a", "tools.exec.ask.x.y"} {
		p, err := ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		if v := d.Root.Find(p); v != nil {
			t.Errorf("%s is %+v", path, v)
		}
	}
}

func TestPosition(t *testing.T) {
	d, err := Parse([]byte("\r\n\r\n[\"é\",\n\n1]"))
	if err != nil {
		t.Fatal(err)
	}
	for offset, want := range map[int]string{-1: "1:1", 0: "1:1", 1: "1:2", 2: "2:1", 4: "3:1", 8: "3:4", 10: "3:6", 11: "4:1", 12: "5:1", 13: "5:2", 14: "5:3", 99: "5:3"} {
		if got := d.Position(offset).String(); got != want {
			t.Errorf("%d: %s, want %s", offset, got, want)
		}
	}
}

func TestKinds(t *testing.T) {
	if got := fmt.Sprint(Null, Bool, Number, String, Array, Object, Kind(0), Kind(9)); got != "null boolean number string array object nothing Kind(9)" {
		t.Error(got)
	}
}
