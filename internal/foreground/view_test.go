package foreground

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

// textLog is a log of which bytes [gapStart, gapEnd) were dropped.
type textLog struct {
	text             string
	gapStart, gapEnd int64
	reads            int64 // bytes
}

func (l *textLog) Stat(context.Context) (corral.LogStat, error) {
	return corral.LogStat{Size: int64(len(l.text)), GapStart: l.gapStart, GapEnd: l.gapEnd}, nil
}

func (l *textLog) Read(_ context.Context, off int64, buf []byte) (corral.Chunk, error) {
	if off >= l.gapStart && off < l.gapEnd {
		off = l.gapEnd
	}
	if off >= int64(len(l.text)) {
		return corral.Chunk{}, io.EOF
	}
	end := int64(len(l.text))
	if off < l.gapStart {
		end = l.gapStart
	}
	n := copy(buf, l.text[off:end])
	l.reads += int64(n)
	return corral.Chunk{Offset: off, Stream: corral.Stdout, Data: buf[:n]}, nil
}

func TestLastLines(t *testing.T) {
	long := strings.Repeat(strings.Repeat("x", 99)+"\n", 5000)
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{
		{"", 3, ""}, {"a", 1, "a"}, {"a\n", 1, "a\n"}, {"a\nb", 1, "b"}, {"a\nb\n", 1, "b\n"}, {"a\nb\nc\n", 2, "b\nc\n"},
		{"a\nb\nc\n", 3, "a\nb\nc\n"}, {"a\nb\nc\n", 9, "a\nb\nc\n"}, {"a\nb\n", 0, ""}, {"\n\n\n", 2, "\n\n"}, {"a\n\n", 1, "\n"},
		{long, 4000, long[100*1000:]}, {long + "end", 1, "end"},
	} {
		log := &textLog{text: tc.text}
		off, err := LastLines(t.Context(), log, tc.n)
		if err != nil || tc.text[off:] != tc.want {
			t.Errorf("the last %d of %d bytes: from %d, %v", tc.n, len(tc.text), off, err)
		}
	}
	// Not all of a long log is read for a few lines, and a gap is no line.
	log := &textLog{text: long}
	if _, err := LastLines(t.Context(), log, 5); err != nil || log.reads > 128<<10 {
		t.Errorf("%d bytes were read, %v", log.reads, err)
	}
	log = &textLog{text: long, gapStart: 250, gapEnd: int64(len(long)) - 50}
	off, err := LastLines(t.Context(), log, 2)
	if err != nil || off != 100 {
		t.Errorf("from %d, %v", off, err)
	}
}
