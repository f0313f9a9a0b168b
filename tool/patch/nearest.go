package patch

import (
	"unicode/utf8"
)

const (
	maxDiff     = 12      // expected lines that an error shows
	maxCompared = 1 << 20 // pairs of lines that are compared for the nearest match
	maxBigrams  = 200     // bytes of a line that count for likeness
	minLikeness = 0.35    // below it, two lines count as unrelated
)

func shownLines(lines []string) []string {
	shown := make([]string, 0, min(len(lines), maxDiff))
	for _, l := range lines[:min(len(lines), maxDiff)] {
		shown = append(shown, printable(l))
	}
	return shown
}

// printable is a line for an error, short and valid.
func printable(line string) string {
	if !utf8.ValidString(line) {
		line = string([]rune(line))
	}
	return cut(line)
}

// nearest looks for the lines of the file that are most like want. Its effort is bounded:
// in a larger file, it looks only for equal lines.
func (r *reduced) nearest(want []string, from int) *Nearest {
	if len(want) == 0 || len(r.lines) == 0 {
		return nil
	}
	if i := index(r.under(0), want); i >= 0 && i < from {
		return &Nearest{Line: i + 1, Before: true, Diff: []string{}}
	}
	have := r.under(len(leniencies) - 1)
	pattern := make([]string, len(want))
	for i, w := range want {
		pattern[i] = normal(w)
	}
	at, ok := bestAlignment(have, pattern)
	if !ok {
		return nil
	}
	n := &Nearest{Line: at + 1, Diff: []string{}}
	for i := 0; i < len(want) && len(n.Diff) < maxDiff; i++ {
		if at+i >= len(have) {
			n.Diff = append(n.Diff, "-"+printable(want[i]))
			continue
		}
		if pattern[i] == have[at+i] {
			n.Diff = append(n.Diff, " "+printable(r.lines[at+i].text))
			continue
		}
		n.Diff = append(n.Diff, "-"+printable(want[i]), "+"+printable(r.lines[at+i].text))
	}
	return n
}

// bestAlignment is the line of have at which pattern fits best: where most of its lines
// are equal; if none are equal, where the line most like its longest line is.
func bestAlignment(have, pattern []string) (at int, ok bool) {
	where := map[string][]int{}
	for i, p := range pattern {
		if p != "" {
			where[p] = append(where[p], i)
		}
	}
	votes, compared := map[int]int{}, 0
	for i, h := range have {
		for _, k := range where[h] {
			if compared++; compared > maxCompared {
				break
			}
			if i >= k {
				votes[i-k] += len(h) + 1
			}
		}
	}
	best := 0
	for start, n := range votes {
		if n > best || n == best && start < at {
			at, best = start, n
		}
	}
	if best > 0 {
		return at, true
	}
	telling := 0
	for i, p := range pattern {
		if len(p) > len(pattern[telling]) {
			telling = i
		}
	}
	if pattern[telling] == "" {
		return 0, false
	}
	want, most := bigrams(pattern[telling]), minLikeness
	for i := 0; i < len(have) && i*maxBigrams < 64*maxCompared; i++ {
		if alike := likeness(want, bigrams(have[i])); alike > most {
			at, most, ok = max(i-telling, 0), alike, true
		}
	}
	return at, ok
}

// bigrams counts the pairs of neighbouring bytes of a line.
func bigrams(s string) map[[2]byte]int {
	s = s[:min(len(s), maxBigrams)]
	pairs := make(map[[2]byte]int, len(s))
	for i := 1; i < len(s); i++ {
		pairs[[2]byte{s[i-1], s[i]}]++
	}
	return pairs
}

// likeness is Dice's coefficient of two lines, from 0 to 1.
func likeness(a, b map[[2]byte]int) float64 {
	both, all := 0, 0
	for pair, n := range a {
		both += min(n, b[pair])
		all += n
	}
	for _, n := range b {
		all += n
	}
	if all == 0 {
		return 0
	}
	return 2 * float64(both) / float64(all)
}
