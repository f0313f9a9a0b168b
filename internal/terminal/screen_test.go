package terminal

import (
	"strings"
	"testing"
)

func TestScreen(t *testing.T) {
	const clean = "\x18\x1b[0m\x1b(B\x0f"
	for _, test := range []struct {
		name, output string
		enter, leave string // leave without what is always there
		full         bool
	}{
		{name: "nothing"},
		{name: "a line", output: "text\r\n"},
		{name: "a prompt", output: "$ ", leave: "\r\n"},
		{name: "colours", output: "\x1b[1;31mred\x1b[0m\n"},
		{name: "vim", output: "\x1b[?1049h\x1b[22;0;0t\x1b[>4;2m\x1b[?1h\x1b=\x1b[?2004h\x1b[?1004h\x1b[1;24r\x1b[?12h\x1b[?12l\x1b[?25l\x1b[2J~\x1b[?25h",
			enter: "\x1b[?1049h\x1b[?1h\x1b[?1004h\x1b[?2004h\x1b=\x1b[>4;2m",
			leave: "\x1b[r\x1b[>4m\x1b>\x1b[?2004l\x1b[?1004l\x1b[?1l\x1b[?1049l", full: true},
		{name: "several modes", output: "\x1b[?1006;1000;25;7h\n", enter: "\x1b[?1000h\x1b[?1006h", leave: "\x1b[?1006l\x1b[?1000l"},
		{name: "switched off", output: "\x1b[?1049h\x1b[?25l\x1b[?1l\x1b[?25h\x1b[?1049l\n"},
		{name: "hidden cursor", output: "\x1b[?25l\x1b[?7l\n", enter: "\x1b[?25l\x1b[?7l", leave: "\x1b[?7h\x1b[?25h"},
		{name: "reset", output: "\x1b[?1049h\x1b[?1h\x1bc\n"},
		{name: "soft reset", output: "\x1b[?2004h\x1b[?1h\x1b=\x1b[4h\x1b[!p\n", enter: "\x1b[?2004h", leave: "\x1b[?2004l"},
		{name: "shape of the cursor", output: "\x1b[6 q\n", enter: "\x1b[6 q", leave: "\x1b[0 q"},
		{name: "unknown modes", output: "\x1b[?99999h\x1b[?3h\x1b[?;h\x1b[1h\n"},
		{name: "unfinished", output: "\n\x1b[?1049", leave: "\r\n"},
	} {
		for _, step := range []int{1, 3, len(test.output) + 1} {
			var s Screen
			for rest := test.output; rest != ""; {
				n := min(step, len(rest))
				_, _ = s.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			if s.Enter() != test.enter || s.Leave() != clean+test.leave || s.FullScreen() != test.full {
				t.Errorf("%s, by %d bytes: enter %q, leave %q, full screen %v", test.name, step, s.Enter(), s.Leave(), s.FullScreen())
			}
			// Who enters is where the program was; who leaves has a new terminal.
			var again Screen
			_, _ = again.Write([]byte(s.Enter()))
			if again.Enter() != s.Enter() {
				t.Errorf("%s: entered twice: %q, %q", test.name, s.Enter(), again.Enter())
			}
			_, _ = again.Write([]byte(s.Leave()))
			if again.Enter() != "" {
				t.Errorf("%s: left with %q", test.name, again.Enter())
			}
		}
	}
}

func TestPast(t *testing.T) {
	const keep = "text \x1b[1;31mred\x1b[m\x1b[?1049h\x1b[6;1H\x1b]0;title\x07\x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\\x1bP1q#\x1b\\ 日本語?"
	queries := []string{
		"\x1b[6n", "\x1b[?6n", "\x1b[5n", "\x1b[c", "\x1b[0c", "\x1b[>c", "\x1b[=c", "\x1b[>0q", "\x1b[?2026$p", "\x1b[18t", "\x1b[14;2t", "\x1b[?u",
		"\x1b]11;?\x07", "\x1b]10;?\x1b\\", "\x1b]4;1;?\x07", "\x1b]52;c;?\x07", "\x1bP+q544e\x1b\\", "\x1bP$qm\x1b\\", "\x1bZ", "\x05",
	}
	output := keep + strings.Join(queries, keep) + keep
	want := strings.Repeat(keep, len(queries)+1)
	for _, step := range []int{1, 2, 7, len(output)} {
		var o Past
		var got strings.Builder
		for rest := output; rest != ""; {
			n := min(step, len(rest))
			got.Write(o.Show([]byte(rest[:n])))
			rest = rest[n:]
		}
		got.Write(o.Rest())
		if got.String() != want {
			t.Errorf("by %d bytes: %q, want %q", step, got.String(), want)
		}
	}
	// What never ends is not held back for ever.
	var o Past
	shown := 0
	for range 10 {
		shown += len(o.Show([]byte("\x1b]" + strings.Repeat("x", 1000))))
	}
	if shown += len(o.Rest()); shown != 10*1002 {
		t.Errorf("%d bytes are shown", shown)
	}
	for range 10 {
		_ = o.Show([]byte(strings.Repeat("x", 1000)))
	}
	if len(o.held) > longestSequence {
		t.Errorf("%d bytes are held back", len(o.held))
	}
}
