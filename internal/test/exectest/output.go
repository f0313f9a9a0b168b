package exectest

import (
	"fmt"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/exectest/pattern"
	"github.com/corral-exec/corral/internal/words"
)

var outputCases = []Case{
	{Name: "output/streams", Doc: "Standard output and standard error are told apart.", Func: outputStreams},
	{Name: "output/merged", Doc: "With MergeStderr both are one stream in exactly the order in which they were written.", Func: outputMerged},
	{Name: "output/order", Doc: "Without MergeStderr each stream by itself is in order.", Func: outputOrder},
	{Name: "output/none", Doc: "A command without output has an empty log that has ended.", Func: outputNone},
	{Name: "output/binary", Doc: "All 256 byte values pass unchanged.", Func: outputBinary},
	{Name: "output/invalid-utf8", Doc: "Bytes that are not UTF-8 are neither replaced nor dropped.", Func: outputInvalidUTF8},
	{Name: "output/split-characters", Doc: "A character whose bytes are written one at a time is whole in the log.", Func: outputSplitCharacters},
	{Name: "output/last-bytes", Doc: "What a command writes right before it exits is in the log when Wait returns.", Func: outputLastBytes},
	{Name: "output/large", Doc: "100 MB of output arrive complete and unchanged.", Func: outputLarge},
	{Name: "output/both-large", Doc: "Megabytes on both streams at once lose nothing and are not mixed.", Func: outputBothLarge},
	{Name: "output/small-pieces", Doc: "Thousands of lines, each written by itself, arrive, also the last of them while the command waits for an answer.", Func: outputSmallPieces},
	{Name: "output/closed", Doc: "A command that closes its output and goes on has not ended.", Func: outputClosed},
	{Name: "output/while-running", Doc: "Output can be read as soon as it is written.", Func: outputWhileRunning},
}

func outputStreams(t *T) {
	r := t.run(t.sh("echo to-out; echo to-err >&2"))
	equal(t, "standard output", r.stdout, "to-out\n")
	equal(t, "standard error", r.stderr, "to-err\n")
}

func outputMerged(t *T) {
	const n = 2000
	cmd := t.prog("alternate", fmt.Sprint(n))
	cmd.MergeStderr = true
	r := t.run(cmd)
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "o%d\ne%d\n", i, i)
	}
	equal(t, "the merged output", r.stdout, want.String())
	equal(t, "standard error", r.stderr, "")
}

func outputOrder(t *T) {
	const n = 2000
	r := t.run(t.prog("alternate", fmt.Sprint(n)))
	var o, e strings.Builder
	for i := range n {
		fmt.Fprintf(&o, "o%d\n", i)
		fmt.Fprintf(&e, "e%d\n", i)
	}
	equal(t, "standard output", r.stdout, o.String())
	equal(t, "standard error", r.stderr, e.String())
}

func outputNone(t *T) {
	r := t.run(t.sh("true"))
	equal(t, "the output", r.all, "")
	equal(t, "Stat", t.stat(r), corral.LogStat{Ended: true})
}

func outputBinary(t *T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	equal(t, "the output", t.ok(t.prog("emit", "0s", fmt.Sprintf("%x", all))), string(all))
	r := t.run(t.sh("$PROG emit 0s %x >&2", all))
	equal(t, "standard error", r.stderr, string(all))
}

func outputInvalidUTF8(t *T) {
	// A lone continuation byte, an overlong slash, a surrogate, a character
	// cut short at the end.
	const bad = "a\x80b\xc0\xafc\xed\xa0\x80d\xe6\x97"
	equal(t, "the output", t.ok(t.prog("emit", "0s", fmt.Sprintf("%x", bad))), bad)
}

func outputSplitCharacters(t *T) {
	const text = "日本語 😀 é"
	p := t.start(withStdin(t.sh("cat")))
	for i := range len(text) {
		t.write(p, text[i:i+1])
		t.eventually("the byte has arrived by itself", func() bool { return t.stat(p).Size > int64(i) })
	}
	t.closeStdin(p)
	var decoder words.Decoder
	var decoded strings.Builder
	t.scan(p, 0, 2, func(c corral.Chunk) bool { // the reader cuts characters, too
		decoded.WriteString(decoder.Decode(c.Stream, c.Data))
		return true
	})
	equal(t, "the decoded output", decoded.String(), text)
	equal(t, "the output", t.finish(p).stdout, text)
}

func outputLastBytes(t *T) {
	for i := range max(t.scaled(40), 5) {
		want := fmt.Sprintf("%d%s", i, strings.Repeat("x", 3000))
		equal(t, "the output", t.ok(t.sh("printf %%s %s; exit 0", want)), want)
	}
}

func outputLarge(t *T) {
	n := int64(t.scaled(100_000_000))
	cmd := t.prog("pattern", fmt.Sprint(n), "1")
	cmd.Log = corral.LogLimit{Head: 8 << 20, Tail: n}
	p := t.start(cmd)
	end := samePattern(t, p, 0, 1)
	equal(t, "the number of bytes", end, n)
	exit := t.wait(p)
	if !exit.Success() {
		t.Fatal(exit)
	}
	equal(t, "Stat", t.stat(p), corral.LogStat{Size: n, Ended: true})
}

// samePattern reads from off to the end, checks that every byte is that of the
// pattern and none is left out, and returns where the log ends.
func samePattern(t *T, p corral.Process, off int64, seed uint64) int64 {
	t.Helper()
	t.scan(p, off, 1<<20, func(c corral.Chunk) bool {
		if c.Offset != off {
			t.Fatalf("after byte %d the output goes on at %d", off, c.Offset)
		}
		if !pattern.Equal(c.Data, seed, off) {
			t.Fatalf("the %d bytes at %d are not what was written", len(c.Data), off)
		}
		off = c.Next()
		return true
	})
	return off
}

func outputBothLarge(t *T) {
	n := t.scaled(8 << 20)
	r := t.run(t.prog("both", fmt.Sprint(n)))
	equal(t, "standard output", r.stdout == strings.Repeat("o", n), true)
	equal(t, "standard error", r.stderr == strings.Repeat("e", n), true)
}

func outputSmallPieces(t *T) {
	const rounds, lines, line = 4, 2000, "a line\n"
	p := t.start(withStdin(t.sh("for r in 1 2 3 4; do i=0; while [ $i -lt %d ]; do echo a line; i=$((i+1)); done; read answer; done; echo $answer", lines)))
	for round := range rounds {
		want := int64((round + 1) * lines * len(line))
		t.eventually("the last line of a round has arrived", func() bool { return t.stat(p).Size == want })
		t.write(p, fmt.Sprintln(round))
	}
	equal(t, "the output", t.finish(p).stdout, strings.Repeat(line, rounds*lines)+"3\n")
}

func outputClosed(t *T) {
	dir := t.dir()
	p := t.start(t.sh("echo open; exec >&- 2>&-; touch %[1]s/closed; while ! test -e %[1]s/go; do sleep 0.05; done; exit 5", dir))
	t.await(p, 0, "open\n")
	t.eventually("its output is closed", func() bool { return t.exists(dir + "/closed") })
	time.Sleep(t.pause(200 * time.Millisecond)) // for whoever takes that for the end
	if t.stat(p).Ended {
		t.Error("the log has ended before the command")
	}
	t.ok(t.sh("touch %s/go", dir))
	equal(t, "the exit code", t.wait(p).Code, 5)
}

func outputWhileRunning(t *T) {
	cmd := t.sh("while read x; do echo got-$x; done")
	cmd.Stdin = true
	p := t.start(cmd)
	off := int64(0)
	for i := range 10 {
		t.write(p, fmt.Sprintf("%d\n", i))
		off = t.await(p, off, fmt.Sprintf("got-%d\n", i))
	}
	t.closeStdin(p)
	equal(t, "the exit code", t.wait(p).Code, 0)
}
