package exectest

import (
	"fmt"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/exectest/pattern"
)

var capCases = []Case{
	{Name: "cap/head-and-tail", Doc: "A full log keeps at least its Head and its Tail, little more, and says exactly which bytes are left out.", Func: capHeadAndTail},
	{Name: "cap/not-reached", Doc: "Output of exactly Head+Tail bytes is kept whole.", Func: capNotReached},
	{Name: "cap/streams", Doc: "On both sides of the gap each byte is of the right stream.", Func: capStreams},
	{Name: "cap/running", Doc: "A reader that is overtaken by the gap goes on after it, with every byte it gets right.", Func: capRunning},
	{Name: "cap/bounded", Doc: "A command that writes far more than its limit is not held up.", Func: capBounded},
}

// capSlop is by how much a log may exceed its limit: a chunk on its way in.
const capSlop = 1 << 20

// gapped reads all of an ended log and checks its one gap against Stat and its
// limit, and every byte with check.
func gapped(t *T, p corral.Process, limit corral.LogLimit, total int64, check func(corral.Chunk)) {
	t.Helper()
	st := t.stat(p)
	equal(t, "Stat.Size", st.Size, total)
	equal(t, "Stat.Ended", st.Ended, true)
	switch {
	case total <= limit.Head+limit.Tail && st.Gap() != 0:
		t.Fatalf("%d bytes within the limit %+v: gap [%d, %d)", total, limit, st.GapStart, st.GapEnd)
	case st.Gap() < 0 || total-st.Gap() > limit.Head+limit.Tail+capSlop:
		t.Fatalf("limit %+v, size %d: gap [%d, %d) keeps too much", limit, total, st.GapStart, st.GapEnd)
	case st.Gap() > 0 && (st.GapStart < limit.Head || st.GapEnd > total-limit.Tail):
		t.Fatalf("limit %+v, size %d: gap [%d, %d) is in the head or the tail", limit, total, st.GapStart, st.GapEnd)
	}
	off, missing := int64(0), int64(0)
	t.scan(p, 0, 64<<10, func(c corral.Chunk) bool {
		if c.Offset != off {
			if off != st.GapStart || c.Offset != st.GapEnd {
				t.Fatalf("after byte %d the output goes on at %d; Stat has the gap [%d, %d)", off, c.Offset, st.GapStart, st.GapEnd)
			}
			missing += c.Offset - off
		}
		check(c)
		off = c.Next()
		return true
	})
	equal(t, "where the log ends", off, total)
	equal(t, "the bytes left out", missing, st.Gap())
	if st.Gap() > 0 {
		for _, at := range []int64{st.GapStart, st.GapStart + st.Gap()/2, st.GapEnd - 1, st.GapEnd} {
			if c, more := t.chunk(p, at, 1); !more || c.Offset != st.GapEnd {
				t.Fatalf("Read(%d) in the gap returned offset %d (more: %v), not %d", at, c.Offset, more, st.GapEnd)
			}
		}
	}
}

func capHeadAndTail(t *T) {
	for _, test := range []struct {
		limit corral.LogLimit
		total int64
	}{
		{corral.LogLimit{Head: 1000, Tail: 2000}, 5_000_000},
		{corral.LogLimit{Head: 100_000, Tail: 1}, 1_000_000},
		{corral.LogLimit{Head: 1, Tail: 100_000}, 5_000_000},
		{corral.LogLimit{Head: 4096, Tail: 4096}, 4_000_000},
		{corral.LogLimit{Head: 123_457, Tail: 765_431}, 3_999_999},
		{corral.LogLimit{Head: 1000, Tail: 1000}, 2001},
		{corral.LogLimit{Head: 1000, Tail: 1000}, 1500},
	} {
		cmd := t.prog("pattern", fmt.Sprint(test.total), "10")
		cmd.Log = test.limit
		p := t.start(cmd)
		t.wait(p)
		gapped(t, p, test.limit, test.total, func(c corral.Chunk) {
			if !pattern.Equal(c.Data, 10, c.Offset) {
				t.Fatalf("limit %+v: the %d bytes at %d are not what was written", test.limit, len(c.Data), c.Offset)
			}
		})
	}
}

func capNotReached(t *T) {
	limit := corral.LogLimit{Head: 30_000, Tail: 50_000}
	cmd := t.prog("pattern", "80000", "11")
	cmd.Log = limit
	p := t.start(cmd)
	t.wait(p)
	equal(t, "the number of bytes", samePattern(t, p, 0, 11), 80_000)
}

func capStreams(t *T) {
	const n = 3 << 20
	cmd := t.prog("both", fmt.Sprint(n))
	// Large enough for both, however far one stream is read ahead: engines hold
	// up to a megabyte of one, and what is in their pipes.
	cmd.Log = corral.LogLimit{Head: 10_000, Tail: 2 << 20}
	p := t.start(cmd)
	t.wait(p)
	seen := map[corral.Stream]bool{}
	gapped(t, p, cmd.Log, 2*n, func(c corral.Chunk) { onlyOf(t, c); seen[c.Stream] = true })
	equal(t, "the number of streams seen", len(seen), 2)
}

func capRunning(t *T) {
	const n = 8_000_000
	cmd := t.prog("pattern", fmt.Sprint(n), "12", "400000", "10ms")
	cmd.Log = corral.LogLimit{Head: 50_000, Tail: 60_000}
	p := t.start(cmd)
	off := int64(0)
	t.scan(p, 0, 1000, func(c corral.Chunk) bool {
		if !pattern.Equal(c.Data, 12, c.Offset) {
			t.Fatalf("the %d bytes at %d are not what was written", len(c.Data), c.Offset)
		}
		if off < cmd.Log.Head && c.Offset != off {
			t.Fatalf("after byte %d, in the head, the output goes on at %d", off, c.Offset)
		}
		off = c.Next()
		return true
	})
	equal(t, "where the log ends", off, n)
}

func capBounded(t *T) {
	cmd := t.prog("pattern", fmt.Sprint(t.scaled(200_000_000)), "13")
	cmd.Log = corral.LogLimit{Head: 1 << 20, Tail: 1 << 20}
	exit := t.run(cmd).exit
	if !exit.Success() {
		t.Fatal(exit)
	}
}
