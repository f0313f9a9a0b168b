// Package spelling finds what a word was meant to be, for errors that say what
// there is instead of what was named. It knows nothing of any language.
package spelling

import "strings"

// Nearest is the one of words that was most likely meant by word; empty if none
// is near.
func Nearest(word string, words []string) string {
	best, least := "", len(word)/3+1
	for _, w := range words {
		if strings.EqualFold(w, word) {
			return w
		}
		if d := distance(strings.ToLower(word), strings.ToLower(w)); d <= least && (best == "" || d < distance(strings.ToLower(word), strings.ToLower(best))) {
			best = w
		}
	}
	return best
}

// distance is how many letters have to be put in, left out or changed to make
// b of a (Levenshtein's), or more if one of them is longer than words that people type.
func distance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return len(a) + len(b)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

const maxWord = 64
