// Package sample has mutants. Its tests notice some of them.
package sample

const limit = 10 - 3 // a constant is not changed

// Limited is tested with care.
func Limited(n int) int {
	if n > limit {
		return limit
	}
	return n
}

// Positive has a boundary that no test looks at.
func Positive(n int) bool { return n > 0 }

// Sum ends only if it counts up.
func Sum(n int) (sum int) {
	for i := 0; i != n; i++ {
		sum += i
	}
	return sum
}

// Untested is what no test reaches.
func Untested(a, b bool) bool { return a && b }

// Every operator is here, in types that a mutant has to keep.
func Every(a, b float32, s []uint8, ok, no bool) (n int64) {
	switch {
	case a*b-a/b < 1.5, !ok || no && len(s) > 1:
		n -= -int64(s[len(s)-1] % 2)
	}
	n--
	return n + -1
}

type flag bool

// Named has a condition of a type of its own.
func Named(f flag, err error) bool { return f == true && bool(f) || err != nil }
