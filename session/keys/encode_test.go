package keys

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

func TestEncodeKeys(t *testing.T) {
	for _, tc := range []struct{ keys, normal, application string }{ // application "": the same
		{"Enter", "\r", ""},
		{"return", "\r", ""},
		{"Tab", "\t", ""},
		{"S-Tab", "\x1b[Z", ""},
		{"BTab", "\x1b[Z", ""},
		{"M-BTab", "\x1b\x1b[Z", ""},
		{"Escape", "\x1b", ""},
		{"M-Escape", "\x1b\x1b", ""},
		{"Space", " ", ""},
		{"C-Space", "\x00", ""},
		{"C-M-Space", "\x1b\x00", ""},
		{"BSpace", "\x7f", ""},
		{"M-BSpace", "\x1b\x7f", ""},
		{"C-BSpace", "\b", ""},

		{"a", "a", ""},
		{"é", "é", ""},
		{"世", "世", ""},
		{"\ufffd", "\ufffd", ""},
		{"-", "-", ""},
		{"^", "^", ""},
		{"S-a", "A", ""},
		{"S-é", "É", ""},
		{"S-A", "A", ""},
		{"C-c", "\x03", ""},
		{"c-C", "\x03", ""},
		{"C-S-c", "\x03", ""},
		{"^c", "\x03", ""},
		{"^^", "\x1e", ""},
		{"^[", "\x1b", ""},
		{"^?", "\x7f", ""},
		{"^M", "\r", ""},
		{"M-^c", "\x1b\x03", ""},
		{"C-@", "\x00", ""},
		{"C-[", "\x1b", ""},
		{"C-\\", "\x1c", ""},
		{"C-]", "\x1d", ""},
		{"C-^", "\x1e", ""},
		{"C-_", "\x1f", ""},
		{"C-/", "\x1f", ""},
		{"C-2", "\x00", ""},
		{"C-6", "\x1e", ""},
		{"C-3", "\x1b", ""},
		{"C-7", "\x1f", ""},
		{"C-~", "\x1e", ""},
		{"C-8", "\x7f", ""},
		{"C-C-c", "\x03", ""},
		{"M-x", "\x1bx", ""},
		{"M-X", "\x1bX", ""},
		{"M-S-x", "\x1bX", ""},
		{"M--", "\x1b-", ""},
		{"M-é", "\x1bé", ""},
		{"C-M-x", "\x1b\x18", ""},
		{"M-C-x", "\x1b\x18", ""},

		{"Up", "\x1b[A", "\x1bOA"},
		{"DOWN", "\x1b[B", "\x1bOB"},
		{"Right", "\x1b[C", "\x1bOC"},
		{"Left", "\x1b[D", "\x1bOD"},
		{"Home", "\x1b[1~", "\x1bOH"},
		{"End", "\x1b[4~", "\x1bOF"},
		{"S-Up", "\x1b[1;2A", ""},
		{"M-Up", "\x1b[1;3A", ""},
		{"M-S-Up", "\x1b[1;4A", ""},
		{"C-Left", "\x1b[1;5D", ""},
		{"^Left", "\x1b[1;5D", ""},
		{"C-S-Left", "\x1b[1;6D", ""},
		{"C-M-Left", "\x1b[1;7D", ""},
		{"S-M-C-Left", "\x1b[1;8D", ""},
		{"C-End", "\x1b[4;5~", ""},

		{"PageUp", "\x1b[5~", ""},
		{"pgdn", "\x1b[6~", ""},
		{"IC", "\x1b[2~", ""},
		{"DC", "\x1b[3~", ""},
		{"Del", "\x1b[3~", ""},
		{"S-DC", "\x1b[3;2~", ""},
		{"C-PPage", "\x1b[5;5~", ""},

		{"F1", "\x1bOP", ""},
		{"F4", "\x1bOS", ""},
		{"F5", "\x1b[15~", ""},
		{"f11", "\x1b[23~", ""},
		{"F20", "\x1b[34~", ""},
		{"S-F1", "\x1b[1;2P", ""},
		{"C-F4", "\x1b[1;5S", ""},
		{"M-F5", "\x1b[15;3~", ""},
		{"S-F12", "\x1b[24;2~", ""},

		{"KP0", "\x1bOp", ""},
		{"KP5", "\x1bOu", ""},
		{"KP/", "\x1bOo", ""},
		{"KP*", "\x1bOj", ""},
		{"KP-", "\x1bOm", ""},
		{"KP+", "\x1bOk", ""},
		{"KP.", "\x1bOn", ""},
		{"kpenter", "\x1bOM", ""},
		{"M-KP-", "\x1b\x1bOm", ""},

		{"hello", "hello", ""},
		{"git status", "git status", ""},
		{" padded ", " padded ", ""},
		{" Enter\n", "\r", ""},
		{"", "", ""},
		{" ", " ", ""},
		{"\x03", "\x03", ""},
		{"e\u0301", "e\u0301", ""},
	} {
		for mode, want := range map[CursorMode]string{CursorNormal: tc.normal, CursorApplication: tc.application} {
			if want == "" {
				want = tc.normal
			}
			got, err := Encode(Request{Keys: []string{tc.keys}}, Options{Cursor: mode})
			if err != nil || string(got.Data) != want || got.Warnings != nil {
				t.Errorf("%q in %s mode: %q, warnings %q, %v; want %q", tc.keys, mode, got.Data, got.Warnings, err, want)
			}
		}
	}
}

// What cannot be typed as asked is a warning, or else an error.
func TestEncodeProblems(t *testing.T) {
	for _, tc := range []struct {
		in      Request
		data    string
		warning string
		strict  string // "": that of the warning, up to the semicolon
		hint    string
	}{
		{
			in:      Request{Keys: []string{"C-foo"}},
			data:    "C-foo",
			warning: `Key 1 ("C-foo") is not the name of a key; it was typed as text.`,
		}, {
			in:      Request{Keys: []string{"Frob"}}, // written as a key is
			data:    "Frob",
			warning: `Key 1 ("Frob") is not the name of a key; it was typed as text.`,
		}, {
			in:   Request{Keys: []string{"frob", "FROB", "Frob nicate", "git status"}},
			data: "frobFROBFrob nicategit status",
			strict: `key 1 ("frob") is not the name of a key; key 2 ("FROB") is not the name of a key; ` +
				`key 3 ("Frob nicate") is not the name of a key; key 4 ("git status") is not the name of a key`,
		}, {
			in:      Request{Keys: []string{"a", "Entre", "b"}},
			data:    "aEntreb",
			warning: `Key 2 ("Entre") is not the name of a key; it was typed as text. Did you mean Enter?`,
			hint:    "Did you mean Enter?",
		}, {
			in:      Request{Keys: []string{"Ctrl+C"}},
			data:    "Ctrl+C",
			warning: `Key 1 ("Ctrl+C") is not the name of a key; it was typed as text. Did you mean C-c?`,
			hint:    "Did you mean C-c?",
		}, {
			in:      Request{Keys: []string{"C-"}},
			data:    "C-",
			warning: "",
			strict:  `key 1 ("C-") is not the name of a key`,
		}, {
			in:      Request{Keys: []string{"hello"}},
			data:    "hello",
			warning: "",
			strict:  `key 1 ("hello") is not the name of a key`,
			hint:    "text to be typed as it stands is for literal",
		}, {
			in:      Request{Keys: []string{" \t"}},
			data:    "",
			warning: `Key 1 (" \t") is white space only; it was left out. Use Space, or literal.`,
		}, {
			in:      Request{Keys: []string{"C-Enter"}},
			data:    "\r",
			warning: `Key 1 ("C-Enter") is not a key that a terminal can tell from the one without Ctrl; it was sent without.`,
		}, {
			in:      Request{Keys: []string{"S-Enter"}},
			data:    "\r",
			warning: `Key 1 ("S-Enter") is not a key that a terminal can tell from the one without Shift; it was sent without.`,
		}, {
			in:      Request{Keys: []string{"C-M-S-1"}},
			data:    "\x1b1",
			warning: `Key 1 ("C-M-S-1") is not a key that a terminal can tell from the one without Ctrl and Shift; it was sent without.`,
		}, {
			in:      Request{Keys: []string{"C-é"}},
			data:    "é",
			warning: `Key 1 ("C-é") is not a key that a terminal can tell from the one without Ctrl; it was sent without.`,
		}, {
			in:      Request{Keys: []string{"C-\xff"}},
			data:    "C-\xff",
			warning: `Key 1 ("C-\xff") is not the name of a key; it was typed as text.`,
		}, {
			in:      Request{Hex: []string{"1b", "5b 123"}},
			data:    "\x1b[",
			warning: `Hex 2 ("123") is not a byte in hexadecimal; it was left out. Write a byte with one or two digits, as 1b or 0x1b.`,
		}, {
			in:      Request{Keys: []string{strings.Repeat("S-", 100) + "é!"}},
			data:    strings.Repeat("S-", 100) + "é!",
			warning: `Key 1 ("` + strings.Repeat("S-", 20) + `…") is not the name of a key; it was typed as text.`,
		},
	} {
		got, err := Encode(tc.in, Options{})
		var want []string
		if tc.warning != "" {
			want = []string{tc.warning}
		}
		if err != nil || string(got.Data) != tc.data || !slices.Equal(got.Warnings, want) {
			t.Errorf("%+v: %q, warnings %q, %v; want %q, %q", tc.in, got.Data, got.Warnings, err, tc.data, want)
		}

		strict := tc.strict
		if strict == "" {
			strict, _, _ = strings.Cut(strings.ToLower(tc.warning[:1])+tc.warning[1:], ";")
		}
		got, err = Encode(tc.in, Options{Strict: true})
		if !errors.Is(err, corral.ErrInvalid) || err.Error() != "cannot type as asked: "+strict {
			t.Errorf("%+v, strictly: %v, want %q", tc.in, err, strict)
		}
		if hint := corral.Hint(err); hint == "" || tc.hint != "" && hint != tc.hint {
			t.Errorf("%+v, strictly: the hint is %q, want %q", tc.in, hint, tc.hint)
		}
		if got.Data != nil {
			t.Errorf("%+v, strictly: an error and the bytes %q", tc.in, got.Data)
		}
	}
}

func TestEncodeOrder(t *testing.T) {
	got, err := Encode(Request{Keys: []string{"Enter"}, Hex: []string{"9", "0x1B,5b  41", "0Xff", ""}, Literal: "Up\n"}, Options{Strict: true})
	if want := "Up\n\t\x1b[A\xff\r"; err != nil || string(got.Data) != want {
		t.Errorf("%q, %v, want %q", got.Data, err, want)
	}
	if got, err := Encode(Request{}, Options{Strict: true}); err != nil || len(got.Data) != 0 {
		t.Errorf("nothing: %q, %v", got.Data, err)
	}
}

// Only keys that depend on the mode wait for it.
func TestEncodeUnknownMode(t *testing.T) {
	for _, name := range []string{"Up", "down", "Left", "Right", "Home", "End"} {
		got, err := Encode(Request{Literal: "x", Keys: []string{"a", name}}, Options{Cursor: CursorUnknown})
		if !errors.Is(err, corral.ErrUnavailable) || got.Data != nil || corral.Hint(err) == "" {
			t.Errorf("%s: %q, %v, want an error with a hint and no bytes", name, got.Data, err)
		}
		if err != nil && !strings.Contains(err.Error(), `key 2 ("`+name) {
			t.Errorf("%s: %v does not name the key", name, err)
		}
	}
	for _, name := range []string{"Enter", "C-Up", "M-Home", "PageUp", "F1", "KP0", "hello", "x"} {
		if got, err := Encode(Request{Keys: []string{name}}, Options{Cursor: CursorUnknown}); err != nil || len(got.Data) == 0 {
			t.Errorf("%s: %q, %v", name, got.Data, err)
		}
	}
}

func TestEncodeBounds(t *testing.T) {
	most := strings.Repeat("x", MaxBytes)
	half := strings.Repeat("x", MaxBytes/2)
	for _, tc := range []struct {
		name string
		in   Request
		ok   bool
	}{
		{"literal", Request{Literal: most}, true},
		{"literal and a key", Request{Literal: most, Keys: []string{"a"}}, false},
		{"literal and a byte", Request{Literal: most, Hex: []string{"0d"}}, false},
		{"too long a literal", Request{Literal: most + "x"}, false},
		{"text", Request{Keys: []string{half, half}}, true},
		{"too much text", Request{Keys: []string{half, half, "a"}}, false},
		{"a list of bytes", Request{Hex: []string{strings.Repeat("0 ", MaxBytes+1)}}, false},
		{"elements", Request{Keys: make([]string, MaxTokens-1), Hex: make([]string, 1)}, true},
		{"too many elements", Request{Keys: make([]string, MaxTokens), Hex: make([]string, 1)}, false},
	} {
		got, err := Encode(tc.in, Options{})
		if (err == nil) != tc.ok || err != nil && (!errors.Is(err, corral.ErrInvalid) || got.Data != nil) {
			t.Errorf("%s: %d bytes, %v", tc.name, len(got.Data), err)
		}
	}

	bad := Request{Hex: slices.Repeat([]string{"zz"}, 1000)}
	got, err := Encode(bad, Options{})
	if n := len(got.Warnings); err != nil || n != maxProblems+1 || got.Warnings[n-1] != "990 more could not be typed as asked." {
		t.Errorf("1000 mistakes: %d warnings, %q, %v", n, got.Warnings[n-1], err)
	}
	if _, err := Encode(bad, Options{Strict: true}); err == nil || len(err.Error()) > 1000 || !strings.HasSuffix(err.Error(), "; and 990 more") {
		t.Errorf("1000 mistakes, strictly: %v", err)
	}
}

func TestSuggest(t *testing.T) {
	for token, want := range map[string]string{
		"Etner": "Enter", "Excape": "Escape", "Bakcspace": "Backspace", "PagUp": "PageUp", "C-Lef": "", "C-Lfet": "C-Left",
		"<Enter>": "Enter", "{Tab}": "Tab", "<C-c>": "C-c", "[F5]": "F5", "<M-Rihgt>": "M-Right",
		"ctrl-c": "C-c", "CTRL+ALT+Delete": "C-M-Delete", "Shift+Tab": "S-Tab", "alt-X": "M-x", "Meta+b": "M-b", "Control-Sapce": "C-Space", "C-Alt-x": "C-M-x",
		"ArrowUp": "Up", "left_arrow": "Left", "C-ArrowLeft": "C-Left",
		"F21": "F20", "Page Up": "PageUp", "Linefeed": "C-j", "Spacebar": "Space",

		"hello": "", "ls": "", "git status": "", "done": "", "down the hill": "", "test": "", "Ctrl": "", "C-foo": "", "ctrl-": "", "--help": "", "control-plane": "",
		"<>": "", "[]": "", "<<<<<<<<": "", strings.Repeat("<", 1000) + strings.Repeat(">", 1000): "", "": "",
	} {
		if got := suggest(token); got != want {
			t.Errorf("suggest(%.40q) = %q, want %q", token, got, want)
		}
	}
}

// Every name is its own in every case, and every suggestion is a name.
func TestNames(t *testing.T) {
	for lower, k := range named {
		if strings.ToLower(k.name) != lower || k.plain == "" {
			t.Errorf("%q is %+v", lower, k)
		}
		for _, spelled := range []string{lower, k.name, strings.ToUpper(lower), "\t" + k.name + " "} {
			if got, err := Encode(Request{Keys: []string{spelled}}, Options{Strict: true}); err != nil || string(got.Data) != k.plain {
				t.Errorf("%q: %q, %v", spelled, got.Data, err)
			}
		}
	}
	for name, other := range otherNames {
		if _, err := Encode(Request{Keys: []string{other}}, Options{Strict: true}); err != nil || known(name) {
			t.Errorf("%q is called %q: %v", other, name, err)
		}
	}
}
