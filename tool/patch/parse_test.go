package patch

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

// patchOf is a patch with these lines.
func patchOf(lines ...string) string {
	return beginPatch + "\n" + strings.Join(lines, "\n") + "\n" + endPatch
}

func TestParse(t *testing.T) {
	replace := Chunk{Line: 3, Lines: []Line{{Remove, "a"}, {Insert, "b"}}}
	for name, c := range map[string]struct {
		text string
		want []Hunk
	}{
		"nothing": {beginPatch + "\n" + endPatch, nil},
		"add": {patchOf("*** Add File: a b.txt", "+x", "+", "++y"),
			[]Hunk{{Op: OpAdd, Path: "a b.txt", Line: 2, Content: "x\n\n+y\n"}}},
		"add of an empty file": {patchOf("*** Add File: a"), []Hunk{{Op: OpAdd, Path: "a", Line: 2}}},
		"delete":               {patchOf("*** Delete File: a", "", "*** Delete File: b"), []Hunk{{Op: OpDelete, Path: "a", Line: 2}, {Op: OpDelete, Path: "b", Line: 4}}},
		"update without a mark": {patchOf("*** Update File: a", "-a", "+b"),
			[]Hunk{{Op: OpUpdate, Path: "a", Line: 2, Chunks: []Chunk{replace}}}},
		"move": {patchOf("*** Update File: a", "*** Move to: b"), []Hunk{{Op: OpUpdate, Path: "a", MoveTo: "b", Line: 2}}},
		"contexts": {patchOf("*** Update File: a", "@@ class A", "@@ def f():", " x", "", "*** End of File"),
			[]Hunk{{Op: OpUpdate, Path: "a", Line: 2, Chunks: []Chunk{{Line: 3, Contexts: []string{"class A", "def f():"}, EndOfFile: true, Lines: []Line{{Keep, "x"}, {Keep, ""}}}}}}},
		"line numbers of a unified diff": {patchOf("*** Update File: a", "@@ -1,2 +1,2 @@ func f()", "-a", "+b"),
			[]Hunk{{Op: OpUpdate, Path: "a", Line: 2, Chunks: []Chunk{replace}}}},
		"two chunks": {patchOf("*** Update File: a", "@@", "-a", "+b", "@@", "+c"),
			[]Hunk{{Op: OpUpdate, Path: "a", Line: 2, Chunks: []Chunk{replace, {Line: 6, Lines: []Line{{Insert, "c"}}}}}}},
		"a header that is a line of the file": {patchOf("*** Update File: a", "-a", "+b", " *** Update File: c"),
			[]Hunk{{Op: OpUpdate, Path: "a", Line: 2, Chunks: []Chunk{{Line: 3, Lines: []Line{{Remove, "a"}, {Insert, "b"}, {Keep, "*** Update File: c"}}}}}}},
		"a blank line before the next hunk": {patchOf("*** Update File: a", "@@", "+b", "", "*** Delete File: c"),
			[]Hunk{{Op: OpUpdate, Path: "a", Line: 2, Chunks: []Chunk{{Line: 3, Lines: []Line{{Insert, "b"}}}}}, {Op: OpDelete, Path: "c", Line: 6}}},
		"line ends of Windows": {strings.ReplaceAll(patchOf("*** Update File: a", "-a", "+b"), "\n", "\r\n"),
			[]Hunk{{Op: OpUpdate, Path: "a", Line: 2, Chunks: []Chunk{replace}}}},
		"space around": {"\n  \n" + patchOf("*** Update File: a", "-a", "+b") + "  \n\n",
			[]Hunk{{Op: OpUpdate, Path: "a", Line: 4, Chunks: []Chunk{{Line: 5, Lines: replace.Lines}}}}},
		"a heredoc": {"<<'EOF'\n" + patchOf("*** Update File: a", "-a", "+b") + "\nEOF\n",
			[]Hunk{{Op: OpUpdate, Path: "a", Line: 3, Chunks: []Chunk{{Line: 4, Lines: replace.Lines}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Parse(c.text)
			if d := cmp.Diff(c.want, p.Hunks); err != nil || d != "" {
				t.Errorf("%v\n%s", err, d)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "Invalid patch: input is empty.",
		" \n\t\n":                             "Invalid patch: input is empty.",
		"\xff":                                "Invalid patch: it is not UTF-8",
		"\nhello":                             `The first line of the patch must be '*** Begin Patch': line 2 is "hello"`,
		beginPatch:                            `The last line of the patch must be '*** End Patch': line 1 is "*** Begin Patch"`,
		beginPatch + "\n*** Delete File: a\n": `The last line of the patch must be '*** End Patch': line 2 is "*** Delete File: a"`,
		"<<EOF\n" + patchOf("*** Delete File: a"):                    `The first line of the patch must be '*** Begin Patch': line 1 is "<<EOF"`,
		patchOf("*** Rename File: a"):                                `Invalid patch hunk at line 2: "*** Rename File: a" is not the header of a hunk`,
		patchOf("*** Add File:"):                                     "Invalid patch hunk at line 2: the path is missing",
		patchOf("*** Add File: a\x01"):                               `Invalid patch hunk at line 2: the path "a\x01" has a control character`,
		patchOf("*** Add File: " + strings.Repeat("a", 5000)):        "Invalid patch hunk at line 2: the path has 5000 bytes, more than 4096",
		patchOf("*** Add File: a", "+x", "y"):                        `Invalid patch hunk at line 4: "y" is not a line of the new file a`,
		patchOf("*** Delete File: a", "-x"):                          `Invalid patch hunk at line 3: "-x" is not the header of a hunk`,
		patchOf("*** Update File: a"):                                "Invalid patch hunk at line 2: the update of a is empty",
		patchOf("*** Update File: a", "*** Delete File: b"):          "Invalid patch hunk at line 2: the update of a is empty",
		patchOf("*** Update File: a", "*** Move to: "):               "Invalid patch hunk at line 3: the path is missing",
		patchOf("*** Update File: a", "@@"):                          "Invalid patch hunk at line 3: the chunk has no lines",
		patchOf("*** Update File: a", "@@", "@@ x"):                  "Invalid patch hunk at line 3: the chunk has no lines",
		patchOf("*** Update File: a", "@@", "*** Delete File: b"):    `Invalid patch hunk at line 4: the chunk has no lines: "*** Delete File: b" is none`,
		patchOf("*** Update File: a", "@@x", "+y"):                   `Invalid patch hunk at line 3: "@@x" is not the mark of a chunk`,
		patchOf("*** Update File: a", "@@", "+y", "z"):               `Invalid patch hunk at line 5: "z" is not a line of a chunk`,
		patchOf("*** Update File: a", "+y", "*** End of File", "+z"): `Invalid patch hunk at line 5: "+z" is not the mark of a chunk`,
		patchOf("*** Update File: a", "+y", "*** End Patch", "+z"):   `Invalid patch hunk at line 4: "*** End Patch" is not a line of a chunk`,
	} {
		_, err := Parse(text)
		if err == nil || err.Error() != want || !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%.80q: %v", text, err)
		}
	}
}

func TestParseBounds(t *testing.T) {
	for what, text := range map[string]string{
		"hunks":  patchOf(strings.TrimSuffix(strings.Repeat("*** Delete File: a\n", MaxHunks+1), "\n")),
		"chunks": patchOf("*** Update File: a\n" + strings.TrimSuffix(strings.Repeat("@@\n+x\n", maxChunks+1), "\n")),
		"bytes":  patchOf("*** Add File: a\n+" + strings.Repeat("x", MaxInput)),
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "more than") || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// render is a patch as text.
func render(p Patch) string {
	var b strings.Builder
	b.WriteString(beginPatch + "\n")
	for _, h := range p.Hunks {
		switch h.Op {
		case OpAdd:
			fmt.Fprintf(&b, "%s %s\n", addFile, h.Path)
			for line := range strings.Lines(h.Content) {
				b.WriteString("+" + line)
			}
		case OpDelete:
			fmt.Fprintf(&b, "%s %s\n", deleteFile, h.Path)
		case OpUpdate:
			fmt.Fprintf(&b, "%s %s\n", updateFile, h.Path)
			if h.MoveTo != "" {
				fmt.Fprintf(&b, "%s %s\n", moveTo, h.MoveTo)
			}
			for _, c := range h.Chunks {
				if len(c.Contexts) == 0 {
					b.WriteString(chunkMark + "\n")
				}
				for _, context := range c.Contexts {
					b.WriteString(chunkMark + " " + context + "\n")
				}
				for _, l := range c.Lines {
					b.WriteString(string(l.Kind) + l.Text + "\n")
				}
				if c.EndOfFile {
					b.WriteString(endOfFile + "\n")
				}
			}
		}
	}
	b.WriteString(endPatch)
	return b.String()
}

// Parsing a patch and writing it again gives the same patch.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		patchOf("*** Add File: a", "+x"),
		patchOf("*** Update File: a", "*** Move to: b", "@@ c", " x", "-y", "+z", "*** End of File", "", "@@", "+w"),
		patchOf("*** Update File: a", "@@ -1 +1 @@", "", "+x", "", "*** Delete File: b"),
		"<<EOF\r\n*** Begin Patch\r\n*** Update File: a\r\n@@\r\n-x\r\n*** End Patch\r\nEOF",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			if !errors.Is(err, corral.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		again, err := Parse(render(p))
		if err != nil {
			t.Fatalf("%v in %q", err, render(p))
		}
		for _, hunks := range [][]Hunk{p.Hunks, again.Hunks} {
			for i := range hunks {
				hunks[i].Line = 0
				for k := range hunks[i].Chunks {
					hunks[i].Chunks[k].Line = 0
				}
			}
		}
		if d := cmp.Diff(p, again); d != "" {
			t.Fatalf("%q:\n%s", text, d)
		}
	})
}
